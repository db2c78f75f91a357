# What the .rpm says of itself. It has the files of the Debian package `heapsnap`, and needs the libraries that the
# program was linked with, and libcapstone: it is for the distribution that it is built on.
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/components.cmake)
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
set(CPACK_RPM_PACKAGE_RELEASE 1)
set(CPACK_RPM_PACKAGE_RELOCATABLE OFF)
set(CPACK_PACKAGE_RELOCATABLE OFF)
set(CPACK_RPM_PROGRAM_PACKAGE_NAME heapsnap)
set(CPACK_RPM_PROGRAM_PACKAGE_GROUP Development/Debuggers)
set(CPACK_RPM_PROGRAM_PACKAGE_SUMMARY "shows where the memory of a running process went")
set(CPACK_RPM_PROGRAM_PACKAGE_DESCRIPTION
  "heapsnap pauses a native process for milliseconds, finds the structures of glibc's malloc without debug symbols or
preparation, and writes a snapshot: a small file that accounts for the resident memory of the process.")
set(CPACK_RPM_PROGRAM_PACKAGE_REQUIRES "shadow-utils, libcapstone.so.${capstone_major}()(64bit)")
set(CPACK_RPM_PROGRAM_POST_INSTALL_SCRIPT_FILE ${CMAKE_CURRENT_LIST_DIR}/post)
set(CPACK_RPM_PROGRAM_PRE_UNINSTALL_SCRIPT_FILE ${CMAKE_CURRENT_LIST_DIR}/preun)
set(CPACK_RPM_PROGRAM_POST_UNINSTALL_SCRIPT_FILE ${CMAKE_CURRENT_LIST_DIR}/postun)
set(CPACK_RPM_PROGRAM_USER_FILELIST
  "%config(noreplace) /etc/heapsnap/collect.toml" "%config(noreplace) /etc/cron.d/heapsnap")
# Folders that are the system's.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /etc /etc/cron.d /usr/lib/systemd /usr/lib/systemd/system
  /usr/lib/sysusers.d /usr/lib/tmpfiles.d ${CMAKE_INSTALL_FULL_LIBDIR} /usr/share/man /usr/share/man/man1 /usr/share/bash-completion
  /usr/share/bash-completion/completions /usr/share/fish /usr/share/fish/vendor_completions.d /usr/share/zsh
  /usr/share/zsh/vendor-completions)
# Files as they are: nothing is stripped again or compressed, and no links by build-id are made.
set(CPACK_RPM_SPEC_MORE_DEFINE "%define _build_id_links none\n%define __os_install_post %{nil}")
