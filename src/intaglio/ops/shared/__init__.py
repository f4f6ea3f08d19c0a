"""What several families of operators share; nothing in here is an operator of its own."""
