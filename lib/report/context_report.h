// The memory contexts of a runtime (PostgreSQL), for people and for programs: what `heapsnap
// objects` says of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "report/json_writer.h"
#include "report/terminal_text.h"
#include "report/writer.h"
#include "runtime/runtime_model.h"

namespace heapsnap {

// How many contexts there are of a runtime, what they have, and what is not theirs: lines below the
// one that names it.
void print_context_sums(Writer& out, const RuntimeModel& model, uint32_t runtime, size_t width);
// All contexts by name: the first `limit` (0: all).
void print_context_names(Writer& out, const RuntimeModel& model, uint64_t limit, const Ink& ink,
                         size_t width);
// Of the contexts of which the snapshot has contents, those with the most bytes (the first `limit`,
// 0: all), and what each is for: the name of an index, the text of a query. Nothing where there are
// none.
void print_context_uses(Writer& out, const RuntimeModel& model, uint64_t limit, const Ink& ink,
                        size_t width);
// The members of one context, into the object that is open.
void write_json_context(JsonWriter& json, const RuntimeModel& model, const RuntimeContext& context);

}  // namespace heapsnap
