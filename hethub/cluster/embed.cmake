# cmake -DFILE=accelerators.json -DOUTPUT=x.cpp -P embed.cmake: the file as a string.
file(READ ${FILE} source)
file(WRITE ${OUTPUT} "// Made by embed.cmake.\n#include \"hethub/cluster/sheets.h\"\n\nnamespace hethub {\n"
     "const std::string_view kSheetsFile = R\"json(${source})json\";\n}  // namespace hethub\n")
