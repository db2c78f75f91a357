// Roots, types and blocks in a few words each, the same in all reports about references.
#pragma once

#include <string>
#include <vector>

#include "report/json_writer.h"
#include "report/reference_report.h"
#include "report/stack_report_input.h"
#include "report/terminal_text.h"

namespace heapsnap {

// "g_cache in server", "thread 4711 (worker), in handle_request()", "server+0x4010",
// "[heap of a custom allocator]": printable.
// `threads`: how many have a thread-local variable of that name, which are one then.
std::string root_label(const SnapshotMetadata& metadata, const RootPlace& place,
                       uint32_t threads = 1);
// The name that threads like `tid` have in common (thread_family.h); empty where it is not known.
std::string thread_family_of(const SnapshotMetadata& metadata, int32_t tid);
// Without the module of what has a name: "g_cache", "thread 4711 (worker), in handle_request()".
std::string short_root_label(const SnapshotMetadata& metadata, const RootPlace& place,
                             uint32_t threads = 1);
// "48 bytes", "1,040 bytes", "1.5 MiB": exact below 1 MiB.
std::string block_size_label(uint64_t bytes);
// "48 bytes", "24 to 120 bytes", "600 bytes to 1.5 KiB"
std::string block_sizes_label(uint64_t least, uint64_t most);
// "Session", else "" where it is not known: printable.
std::string type_label(const ReferenceReportInput& input, TypeNumber type);
// "Session of 48 bytes", "48 bytes"
std::string block_label(const ReferenceReportInput& input, TypeNumber type, uint64_t bytes);
// What to call the snapshot or the process in a command.
std::string source_word(const ReferenceReportInput& input);

// How to see where all of its memory is: "heapsnap report a.hsnap", "heapsnap attach 4242".
std::string overview_command(const ReferenceReportInput& input);
// The command that takes a snapshot with references of the same process or core. `core_path`: where
// that core is, if it is known.
std::string with_references_command(const SnapshotMetadata& metadata,
                                    const std::string& core_path = {});

// Of a runtime with a why_not: "the heap of Python was not read: ...", with the remedy.
std::string left_out_text(const Runtime& runtime);

// What must be known to interpret any of it correctly, a sentence each.
std::vector<std::string> reference_remarks(const ReferenceReportInput& input);

// The process, how much is in use, and the remarks.
void print_reference_head(Writer& out, const ReferenceReportInput& input, const Ink& ink,
                          size_t width);
// `front` on the first line, blanks on the others.
void print_lines(Writer& out, const std::string& front, const std::string& text, size_t width);
// What to do, and the command for it; print_next() with a heading.
void print_step(Writer& out, const std::string& why, const std::string& command, size_t width);
void print_next(Writer& out, const std::string& why, const std::string& command, const Ink& ink,
                size_t width);
// How to see what grows from now on, with what was just looked at as the first of two snapshots.
// The paths are those of the input (reference_report.h).
void print_next_growth(Writer& out, const SnapshotMetadata& metadata,
                       const std::string& snapshot_path, const std::string& core_path,
                       const Ink& ink, size_t width);
// The same without a heading.
void print_growth_step(Writer& out, const SnapshotMetadata& metadata,
                       const std::string& snapshot_path, const std::string& core_path,
                       size_t width);
// Whether the tracker recorded in the process when the snapshot was taken.
bool was_recorded(const SnapshotMetadata& metadata);
// Whether the process of the snapshot may run still, and had no tracker.
bool can_still_be_tracked(const ReferenceReportInput& input);
// How to see, with a tracker, who allocates what is leaked.
void print_tracking_of_leaks(Writer& out, const SnapshotMetadata& metadata, const Ink& ink,
                             size_t width);
// "Process 4711 does not run here", the start of a sentence that ends with how to start it.
std::string not_running_text(const Process& process);
// To print these stacks, each of which is known (has_stack()).
StackReportInput input_of_stacks(const ReferenceReportInput& input, std::vector<uint32_t> stacks);
// Whether the call stack of that number is known.
bool has_stack(const ReferenceReportInput& input, uint32_t stack);

// The members that name a root: "root", "kind" and what else is known of it.
void write_json_root(JsonWriter& json, const RootPlace& place);
// The members "frames" and "end" of a stack that is known.
void write_json_stack(JsonWriter& json, const ReferenceReportInput& input, uint32_t stack);
// The member "type", where it is known.
void write_json_type(JsonWriter& json, const ReferenceReportInput& input, TypeNumber type);
// The head, and "references": what was looked at.
void write_json_reference_head(JsonWriter& json, const char* kind,
                               const ReferenceReportInput& input);

}  // namespace heapsnap
