"""What people run on the library: commands, pages, services, studies, exports. The library never imports it."""
