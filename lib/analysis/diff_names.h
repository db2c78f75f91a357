// What roots, blocks and stacks are called wherever another process has them, too, also one of
// another build of the program: by names, never by addresses or numbers of threads.
//
//   g_cache                              a variable of the program
//   g_pool in libfoo.so                  of a library, whatever its version
//   t_buffer, thread-local of worker     of all threads of that name
//   worker, in handle_request()          on their stacks
//   the program, in main()               across builds, of a thread without a name of its own
//   server+0x4010                        without a name, within one build; across builds all of
//   variables without a name in server   them together
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/block_contexts.h"
#include "analysis/diff_table.h"
#include "analysis/leak_census.h"
#include "analysis/owner_sums.h"
#include "analysis/owner_tree.h"
#include "analysis/passed_frames.h"
#include "analysis/reference_streams.h"
#include "references/root.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/metadata.h"

namespace heapsnap {

// Whether addresses within modules mean the same in all snapshots.
enum class NameScope : uint8_t { kOneBuild, kSeveralBuilds };

// Whether all snapshots have the names of their threads: a core has that of the process alone.
enum class ThreadNames : uint8_t { kKnown, kUnknown };
ThreadNames thread_names_of(const SnapshotMetadata& metadata);

// "libfoo.so" of "/usr/lib/libfoo.so.1.2".
std::string unversioned_name(std::string_view path);

// The places of roots. `metadata` must outlive it.
class RootNames {
 public:
  RootNames(const SnapshotMetadata& metadata, NameScope scope,
            ThreadNames threads = ThreadNames::kKnown);
  // The same in each snapshot.
  std::string of(const RootPlace& place) const;
  // To be shown: of what has no name, where its words end, too, which may be elsewhere in another
  // snapshot.
  std::string shown(const RootPlace& place) const;

 private:
  std::string thread_name(int32_t tid) const;
  std::string variable_name(const RootPlace& place) const;

  const SnapshotMetadata& metadata_;
  NameScope scope_;
  std::map<int32_t, std::string> threads_;
};

inline constexpr std::string_view kSeveralRoots = "several roots together";
// "g_cache", or kSeveralRoots.
std::string owner_name(const OwnerSum& owner, const OwnerSums& sums, const RootNames& roots);
// What the blocks of a node have in common: "Session", "blocks of 48 bytes", "arrays of
// references", "blocks without references".
std::string blocks_name(const OwnerNode& node, const std::vector<BlockType>& types);
// The sizes of blocks whose blocks_name() says neither type nor size, else none.
SaidSizes sizes_to_say(const OwnerNode& node);
// Of blocks of unknown type: "unknown type, held by Session+0x18".
std::string context_name(const BlockContext& context, const ReferenceStreams& references,
                         const RootNames& roots);

// The functions of call stacks, from the one that a stack is charged to (passed_frames.h) outwards,
// without what starts the thread; one that calls itself counts once. All that is given must outlive
// it.
class DiffStackNames {
 public:
  DiffStackNames(const RecordedStacks& recorded, const TrackerRecord& tracker, NameScope scope,
                 PassedFrames passed = {});

  // Of the function that the stack is charged to, which compilers inline no differently in another
  // build, and of all of them.
  struct Keys {
    uint64_t function = 0;
    uint64_t stack = 0;
  };
  Keys keys_of(uint32_t stack);
  // "insert(int)"
  std::string function_of(uint32_t stack);
  // "insert(int) ← parse(Text&) ← main"
  std::string of(uint32_t stack);

 private:
  struct Frame {
    std::string_view name;
    FrameRole role = FrameRole::kOwn;
  };
  const std::vector<Frame>& frames_at(uint32_t node);
  // Of a stack, innermost first.
  const std::vector<std::string_view>& names_of(uint32_t stack);

  const RecordedStacks& recorded_;
  NameScope scope_;
  PassedFrames passed_;
  std::vector<std::string> modules_;         // their unversioned names
  std::vector<std::vector<Frame>> by_node_;  // empty: not asked for yet
  std::vector<std::optional<FrameRole>> roles_;
  std::vector<FrameRole> stack_roles_;
  std::vector<std::string_view> all_;
  std::vector<std::string_view> names_;
};

// "Session", "cycles with Session", "blocks of 48 bytes"; where stacks are known, what allocated
// them.
std::string leak_name(const LeakGroup& group, const std::vector<BlockType>& types,
                      DiffStackNames* stacks);

}  // namespace heapsnap
