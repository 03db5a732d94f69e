"""Programs in other languages than Python: their SDKs of the component package, and hosts that run them."""
