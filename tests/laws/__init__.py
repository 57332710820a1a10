"""Laws that every strategy obeys, and rules about the code itself."""
