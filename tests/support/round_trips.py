"""Measures round trips of a byte, and the rate of 5 MB, on one connection.

python -m tests.support.round_trips            answers one connection
python -m tests.support.round_trips ADDRESS    asks there; prints JSON
"""

import json
import socket
import sys
import time

PORT, TURNS, SIZE = 5555, 15, 5_000_000


def answer() -> None:
  """Echoes each of TURNS bytes, then answers SIZE bytes with one."""
  with socket.create_server(('', PORT)) as server:
    there = server.accept()[0]
  there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
  for _ in range(TURNS):
    there.sendall(there.recv(1))
  got = 0
  while got < SIZE:
    got += len(there.recv(2**20))
  there.sendall(b'x')


def ask(address: str) -> dict:
  """Seconds of each round trip, and bits per second."""
  there = _connected(address)
  there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
  seconds = []
  for content in [b'x'] * TURNS + [bytes(SIZE)]:
    began = time.perf_counter()
    there.sendall(content)
    there.recv(1)
    seconds.append(time.perf_counter() - began)
  return {'round_trips_s': seconds[:-1], 'bit_per_s': 8 * SIZE / seconds[-1]}


def _connected(address: str) -> socket.socket:
  while True:  # Until the other side listens.
    try:
      return socket.create_connection((address, PORT))
    except OSError:
      time.sleep(0.1)


if __name__ == '__main__':
  if sys.argv[1:]:
    print(json.dumps(ask(sys.argv[1])))
  else:
    answer()
