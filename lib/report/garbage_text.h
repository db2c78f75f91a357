// What the screens say of garbage: objects of a language runtime that no root leads to. A collector
// that the program has disabled (gc.disable(), GC.disable) does not run by itself, and one that
// runs does not look at all objects each time: nothing here says when they will be freed.
#pragma once

#include <string>

#include "analysis/size_classes.h"
#include "runtime/runtime_model.h"

namespace heapsnap {

// "objects that no root leads to, freed by the next full garbage collection"; where the garbage is
// a tenth of what is in use or more, also what starts one: " (in Python: gc.collect())".
std::string garbage_text(const RuntimeModel& runtimes, const Tally& garbage, const Tally& in_use);

}  // namespace heapsnap
