"""HTTP requests of tools to addresses that a model chose: public ones only, limited in time and size.

It uses `http.client` over its own socket, because no HTTP library offers these three properties together.
"""
