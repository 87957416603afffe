// A plug-in of a version that no program has: all that such a table surely has is its version.

#include "hethub/accel/plugin/plugin.h"

const HethubPlugin* hethub_plugin() {
  static const HethubPlugin table = [] {
    HethubPlugin old = {};
    old.version = 0;
    return old;
  }();
  return &table;
}
