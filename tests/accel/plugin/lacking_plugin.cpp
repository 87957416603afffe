// A plug-in that needs a function no library has.

#include "hethub/accel/plugin/plugin.h"

extern "C" const HethubPlugin* hethub_test_function_of_a_missing_library();

const HethubPlugin* hethub_plugin() { return hethub_test_function_of_a_missing_library(); }
