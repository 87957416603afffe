# Run at every build: cmake -D SOURCE=dir -D VERSION=x -D OUTPUT=file -P version.cmake
# Writes OUTPUT only where its text changes, so that nothing is rebuilt without need.
set(text "${VERSION}")
find_package(Git QUIET)
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${SOURCE} describe --always --dirty
                  OUTPUT_VARIABLE tree OUTPUT_STRIP_TRAILING_WHITESPACE
                  ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    string(APPEND text " (${tree})")
  endif()
endif()
set(line "#define HETHUB_VERSION_TEXT \"${text}\"\n")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT line STREQUAL before)
  file(WRITE ${OUTPUT} "${line}")
endif()
