// Functions that a loaded module defines for others, from its dynamic symbols as they lie in
// memory: without dlsym, which allocates, takes locks and prints, and must not be called in a hook.
#pragma once

#include <link.h>

namespace heapsnap::tracker {

// The address of a function of that name; null when the module defines none. Versions are not
// looked at. Where the loader would ask a resolver which one to take (STT_GNU_IFUNC), this does.
void* defined_function(const dl_phdr_info& module, const char* name);

}  // namespace heapsnap::tracker
