#include "tests/live/injection_probe.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "elf/elf_image.h"
#include "platform/linux/freeze/running_process.h"
#include "tools/inject/running_program.h"
#include "tools/inject/tracker_presence.h"
#include "tools/tracker_image/tracker_image.h"
#include "tracking/tracker_library.h"

namespace heapsnap::live {

namespace {

constexpr uint64_t kPage = 4096;
constexpr int kRoundsALine = 100;

void read_words(Target& target, const AddressRange& range, MappedWords& words) {
  std::vector<std::byte> bytes(range.size());
  bytes.resize(target.memory().read(range.begin, bytes));
  words[range.begin.value()] = std::move(bytes);
}

// `first` maps the beginning of the file.
void read_bindings(Target& target, const Mapping& first, MappedWords& words) {
  std::optional<MappedFile> file = target.open_file(first);
  if (!file) return;
  const ElfImage image = ElfImage::from_file(std::move(*file), first.path);
  uint64_t lowest = ~uint64_t{0};
  for (const ElfSegment& segment : image.segments()) {
    if (segment.type == PT_LOAD) lowest = std::min(lowest, segment.address / kPage * kPage);
  }
  for (const char* name : {".got", ".got.plt"}) {
    const ElfSection* const section = image.section(name);
    if (section == nullptr) continue;
    const Address begin = first.range.begin + (section->address - lowest);
    read_words(target, {begin, begin + section->size}, words);
  }
}

double milliseconds(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count()) / 1e6;
}

std::chrono::nanoseconds share_of(std::vector<std::chrono::nanoseconds> times, double share) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  const auto at = static_cast<size_t>(share * static_cast<double>(times.size()));
  return times[std::min(at, times.size() - 1)];
}

std::string shares_text(const std::vector<std::chrono::nanoseconds>& times) {
  return fmt::format("median {:.2f} ms, 99 % {:.2f} ms, most {:.2f} ms of {}",
                     milliseconds(share_of(times, 0.5)), milliseconds(share_of(times, 0.99)),
                     milliseconds(share_of(times, 1)), times.size());
}

}  // namespace

MappedWords code_and_bindings(pid_t pid, std::string_view passed_over) {
  const auto target = open_running_process(pid);
  MappedWords words;
  for (const Mapping& mapping : target->address_space().mappings()) {
    if (!mapping.path.starts_with("/") || mapping.path.find(passed_over) != std::string::npos ||
        is_tracker_library(mapping.path)) {
      continue;
    }
    if (mapping.readable && !mapping.writable) read_words(*target, mapping.range, words);
    if (mapping.file_offset == 0) read_bindings(*target, mapping, words);
  }
  return words;
}

std::string changes_of(const MappedWords& before, const MappedWords& now) {
  std::string text;
  for (const auto& [address, bytes] : before) {
    const auto found = now.find(address);
    if (found == now.end()) {
      text += fmt::format("{:#x} is not mapped any more\n", address);
    } else if (found->second != bytes) {
      const size_t size = std::min(bytes.size(), found->second.size());
      const auto differs = std::mismatch(
          bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size), found->second.begin());
      text += fmt::format("{:#x} has changed at +{:#x}\n", address, differs.first - bytes.begin());
    }
  }
  return text;
}

uint64_t recorded_allocations(pid_t pid) {
  RunningProgram target(pid);
  const CLibrary libc = CLibrary::find(target);
  const auto tracker = find_tracker(target, libc, tracker_image());
  const auto directory = tracker ? read_tracker_directory(target, *tracker) : std::nullopt;
  if (!directory) return 0;
  uint64_t sum = 0;
  const auto chunk = target.memory().read_value<uint64_t>(Address(directory->threads.chunks));
  for (uint64_t i = 0; chunk && i < std::min<uint64_t>(directory->threads.count, 64); ++i) {
    const auto record = target.memory().read_value<tracker::ThreadRecord>(
        Address(*chunk + i * directory->threads.entry_size));
    if (record) sum += record->allocations;
  }
  return sum;
}

void StandstillTimes::add(const TrackingChange& change) {
  std::vector<StolenTime> borrowed = change.call.stolen;
  borrowed.insert(borrowed.end(), change.hooks.page_makers.begin(), change.hooks.page_makers.end());
  std::chrono::nanoseconds longest{};
  std::chrono::nanoseconds sum{};
  for (const StolenTime& stolen : borrowed) {
    longest = std::max(longest, stolen.duration);
    sum += stolen.duration;
  }
  longest_.push_back(longest);
  sums_.push_back(sum);
  if (change.hooks.patch.stops != 0) all_.push_back(change.hooks.patch.pause);
}

std::chrono::nanoseconds StandstillTimes::median_borrowed() const {
  return share_of(longest_, 0.5);
}

std::string StandstillTimes::summary() const {
  return "one thread stood for " + shares_text(longest_) + "; one after the other " +
         shares_text(sums_) + "; all threads at once " + shares_text(all_);
}

void Progress::step() {
  if (++done_ % kRoundsALine != 0) return;
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - began_);
  std::fprintf(stderr, "%s: %d of %d after %.1f s\n", what_.c_str(), done_, rounds_,
               static_cast<double>(took.count()) / 1000);
}

}  // namespace heapsnap::live
