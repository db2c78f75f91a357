# What the .debs say of themselves, and the files that only Debian wants.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib/capi)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_STRIP_FILES ON)

set(library libheapsnap0)
set(extension postgresql-${HEAPSNAP_POSTGRESQL_MAJOR}-heapsnap)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME heapsnap)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "init-system-helpers (>= 1.52), libcapstone${capstone_major}, passwd")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "libcap2-bin, libcurl3-gnutls | libcurl4, libdebuginfod1, systemd | cron-daemon")
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "shows where the memory of a running process went
heapsnap pauses a native process for milliseconds, finds the structures of
glibc's malloc without debug symbols or preparation, and writes a snapshot:
a small file that accounts for the resident memory of the process, block by
block.

It can also load a tracker into a running process that records the call
stack of every allocation, and take snapshots at intervals, by a systemd
timer or by cron, to show how the memory of a program grows.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA
  ${CMAKE_CURRENT_LIST_DIR}/postinst ${CMAKE_CURRENT_LIST_DIR}/prerm ${CMAKE_CURRENT_LIST_DIR}/postrm
  ${CMAKE_CURRENT_LIST_DIR}/conffiles)

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "heapsnap (= ${PROJECT_VERSION})")
configure_file(${CMAKE_CURRENT_LIST_DIR}/shlibs.in ${CMAKE_CURRENT_BINARY_DIR}/shlibs @ONLY)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA
  ${CMAKE_CURRENT_BINARY_DIR}/shlibs ${CMAKE_CURRENT_LIST_DIR}/triggers)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "library by which a process dumps its own heap
libheapsnap has a program, or the interpreter of a script, write a snapshot
of its own heap to a file, without allocating anything from that heap. The
work is done by the program heapsnap.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libheapsnap-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "library by which a process dumps its own heap (development files)
libheapsnap has a program, or the interpreter of a script, write a snapshot
of its own heap to a file, without allocating anything from that heap.

This package has the header, and the files that pkg-config and CMake read.")

set(CPACK_DEBIAN_POSTGRESQL_PACKAGE_NAME ${extension})
set(CPACK_DEBIAN_POSTGRESQL_PACKAGE_SECTION database)
set(CPACK_DEBIAN_POSTGRESQL_PACKAGE_DEPENDS
  "${library} (= ${PROJECT_VERSION}), postgresql-${HEAPSNAP_POSTGRESQL_MAJOR}")
set(CPACK_DEBIAN_POSTGRESQL_DESCRIPTION "heap snapshots of PostgreSQL's backends, by SQL
SELECT heapsnap_dump('/path') writes a snapshot of the malloc heap of the
backend that runs it, by which heapsnap shows where its memory went.")

# Debug symbols of what the others have stripped, where debuggers look for them by build-id.
foreach(component program library postgresql)
  if(NOT component IN_LIST CPACK_COMPONENTS_ALL)
    continue()
  endif()
  string(TOUPPER ${component} upper)
  set(of ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  list(APPEND CPACK_COMPONENTS_ALL ${component}_dbgsym)
  set(CPACK_DEBIAN_${upper}_DBGSYM_PACKAGE_NAME ${of}-dbgsym)
  set(CPACK_DEBIAN_${upper}_DBGSYM_PACKAGE_SECTION debug)
  set(CPACK_DEBIAN_${upper}_DBGSYM_PACKAGE_SHLIBDEPS OFF)
  set(CPACK_DEBIAN_${upper}_DBGSYM_PACKAGE_DEPENDS "${of} (= ${PROJECT_VERSION})")
  set(CPACK_DEBIAN_${upper}_DBGSYM_DESCRIPTION "debug symbols for ${of}
By them, debuggers and heapsnap itself name the functions and lines of the
programs and libraries in the package ${of}.")
endforeach()
set(program_files $<TARGET_FILE:heapsnap> $<TARGET_FILE:heapsnap_tracker>)
set(library_files $<TARGET_FILE:libheapsnap>)
set(postgresql_files $<TARGET_FILE:heapsnap_postgresql>)
foreach(component program library postgresql)
  if(${component}_dbgsym IN_LIST CPACK_COMPONENTS_ALL)
    install(CODE "
      set(files ${${component}_files})
      include(${CMAKE_CURRENT_LIST_DIR}/debug_files.cmake)" COMPONENT ${component}_dbgsym)
  endif()
endforeach()

# /usr/share/doc of each package.
configure_file(${CMAKE_CURRENT_LIST_DIR}/changelog.in ${CMAKE_CURRENT_BINARY_DIR}/changelog @ONLY)
set(changelog ${CMAKE_CURRENT_BINARY_DIR}/changelog.gz)
add_custom_command(OUTPUT ${changelog} COMMAND gzip -9nc changelog > ${changelog}
  DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/changelog WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} VERBATIM)
add_custom_target(debian_changelog ALL DEPENDS ${changelog})
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/copyright ${changelog}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component})
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/overrides/${component}.in)
    configure_file(${CMAKE_CURRENT_LIST_DIR}/overrides/${component}.in ${CMAKE_CURRENT_BINARY_DIR}/${component}.overrides @ONLY)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${component}.overrides RENAME ${package}
      DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides COMPONENT ${component})
  endif()
endforeach()
