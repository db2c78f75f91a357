// The objects of Ruby in the JSON of the gem heap_dump: an array with an object a line, which its
// README imports into MongoDB by sed and mongoimport.
//
//   [{"id":"_ROOTS_","registers":[...],"stack":[...],"globals":[...],"classes":{"Order":93...},
//     "variables":[{"name":"Cache::STORE","ref":139681733729368}]}
//   ,{"id":139681733729368,"bt":"T_HASH","class":139681733758680,"class_name":"Hash","size":232,
//     "refs":[...]}
//   ]
//
// An id is the address of the object. Values, keys, names of instance variables and methods are not
// in a snapshot: "refs" has what an object refers to, whatever its type. A line with more than
// kMostElementsOfHeapDump references goes on in another, with the id "139681733729368:1" and "of":
// BSON takes documents of up to 16 MiB.
#pragma once

#include <cstdint>

#include "analysis/ruby_objects.h"
#include "report/writer.h"

namespace heapsnap {

inline constexpr uint64_t kMostElementsOfHeapDump = 500'000;

// `most`: elements of a line, at least 1.
void export_heap_dump(RubyObjects& objects, Writer& out, uint64_t most = kMostElementsOfHeapDump);

}  // namespace heapsnap
