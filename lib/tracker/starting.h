// Starting and stopping, from outside (tracker.h) or because the library was preloaded.
#pragma once

namespace heapsnap::tracker {

// The first hook that is entered in a process where nobody called heapsnap_tracker_start: the
// library was preloaded. Starts with the options of the HEAPSNAP_* variables, unless they say not
// to.
void start_if_preloaded();

// The hook table of table_layout.h is in hooks.cpp, next to the hooks.
void publish_hooks();

}  // namespace heapsnap::tracker
