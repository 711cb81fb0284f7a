# cmake -DSOURCE=FOLDER -DOUT=FILE -P revision.cmake: writes a header with the commit and its date,
# empty outside a git checkout. An equal header is left alone.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE} log -1 --format=%h,\ %cs
  OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT EXISTS ${SOURCE}/.git)
  set(revision "")
elseif(revision)
  set(revision " (${revision})")
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#pragma once\n#define ORRERY_REVISION \"@revision@\"\n" @ONLY)
