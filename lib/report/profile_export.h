// A stack profile (stack_profile.h) in the formats of other tools.
//
//   folded       "main;load;parse 4096", a line a stack, outermost frame first, the bytes at the
//                end: flamegraph.pl, inferno, speedscope. A ';' in a name becomes ','.
//   speedscope   https://www.speedscope.app/file-format-schema.json: two sampled profiles, of the
//                bytes and of the blocks.
//   dhat         version 2 of DHAT's JSON, for valgrind's dh_view.html and the Firefox Profiler. A
//                snapshot is one moment, so all moments that the format asks for are this one, and
//                lifetimes, which it asks for too, are 0.
//   heaptrack    version 3 of heaptrack's text, for heaptrack_gui and heaptrack_print: one
//                allocation for each block in use, none freed. Blocks of a stack differ by a byte
//                at most, so that their sum is right: the profile does not know more of them.
//
// All are written front to back. Names are as heapsnap's own listings print them (printable()): an
// ESC byte in one is "\x1b" in all of these.
#pragma once

#include <functional>
#include <string_view>

#include "report/stack_profile.h"
#include "report/writer.h"

namespace heapsnap {

void export_folded(const StackProfile& profile, Writer& out);
void export_speedscope(const SnapshotMetadata& metadata, const StackProfile& profile, Writer& out);
void export_dhat(const SnapshotMetadata& metadata, const StackProfile& profile, Writer& out);
// `put` takes the text piece by piece. Throws Error{kUnsupported} before the first one when there
// are more than 2^27 blocks.
void export_heaptrack(const SnapshotMetadata& metadata, const StackProfile& profile,
                      const std::function<void(std::string_view)>& put);

}  // namespace heapsnap
