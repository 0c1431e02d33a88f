// fleet._native: this folder checks what Python hands over, lets the GIL go, calls the core. Nothing else knows Python.
#include "bind/arrays.h"

NB_MODULE(_native, m) {
  // A process that ends inside a loop, as those of a DataLoader do, still holds what it parses with.
  nanobind::set_leak_warnings(false);
  m.doc() = "The C++ core of Fleet. Works on plain buffers with the GIL released; see _native.pyi.";
  fleet::bind::add_checksum(m);
  fleet::bind::add_clicks(m);
  fleet::bind::add_compress(m);
  fleet::bind::add_copies(m);
  fleet::bind::add_data(m);
  fleet::bind::add_delimited(m);
  fleet::bind::add_disk(m);
  fleet::bind::add_field(m);
  fleet::bind::add_format(m);
  fleet::bind::add_keys(m);
  fleet::bind::add_math(m);
  fleet::bind::add_plane(m);
  fleet::bind::add_holdings(m);
  fleet::bind::add_pool(m);
  fleet::bind::add_reader(m);
  fleet::bind::add_rule(m);
  fleet::bind::add_serve(m);
  fleet::bind::add_table(m);
  fleet::bind::add_threads(m);
  fleet::bind::add_trace(m);
}
