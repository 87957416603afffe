# cmake -DFILES=a.cl;b.cl -DOUTPUT=kernels.cpp -P embed.cmake
# Writes each file as a string_view: common.cl becomes hethub::opencl::kCommonSource.
set(content "// Made by embed.cmake from kernels/*.cl.\n")
string(APPEND content "#include \"hethub/accel/opencl/kernels.h\"\n\nnamespace hethub::opencl {\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME_WE)
  string(SUBSTRING ${name} 0 1 first)
  string(TOUPPER ${first} first)
  string(SUBSTRING ${name} 1 -1 rest)
  file(READ ${file} source)
  string(APPEND content "const std::string_view k${first}${rest}Source = R\"cl(${source})cl\";\n")
endforeach()
string(APPEND content "}  // namespace hethub::opencl\n")
file(WRITE ${OUTPUT} "${content}")
