"""What runs a graph: specialising by sizes, executing, running again."""
