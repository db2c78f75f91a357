// Compares what a walk accounts for with what each arena says it has from the kernel.
#pragma once

#include "heap/corruption_log.h"
#include "heap/heap_model.h"

namespace heapsnap {

// A foreign sbrk call leaves a hole before a brk segment. malloc counts it in system_mem, but not
// once mmap has replaced brk for the first time (sysmalloc(): contiguous (av)), and nothing says
// which holes came after that. Takes as many of the last holes out of the segments' system_bytes of
// a non-contiguous main arena as make the sum equal system_mem; where no number does, all stay.
void settle_foreign_holes(HeapModel& model);

// A record for each arena whose `walked` differs from its system_mem.
void check_system_mem(const HeapModel& model, CorruptionLog& log);

}  // namespace heapsnap
