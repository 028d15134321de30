"""Applications over the library: commands, pages, services, studies, exports. The library never imports them."""
