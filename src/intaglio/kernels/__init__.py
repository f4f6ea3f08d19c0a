"""From a graph to kernels: fusion, views, layouts, structured kernels, and the driver that calls them."""
