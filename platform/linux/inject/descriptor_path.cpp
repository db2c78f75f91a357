#include "platform/linux/inject/descriptor_path.h"

#include <random>
#include <string>

namespace heapsnap {

CallList::Value add_descriptor_path(CallList& calls, const DescriptorPathFunctions& functions,
                                    CallList::Step file, size_t least_length) {
  constexpr size_t kLongestLink = 64;  // "PID/task/TID"
  constexpr size_t kLongestNumbers = 64;
  std::random_device random;
  std::string format = "/proc/self/task/";
  for (size_t i = 0; i < least_length; ++i) format += (random() & 1) != 0 ? "./" : "/";
  format += "%s/fd/%d";
  const auto link = calls.put_text("/proc/thread-self");
  const auto task = calls.reserve(kLongestLink);
  const auto text = calls.put_text(format);
  const auto path = calls.reserve(format.size() + kLongestNumbers);
  const auto call = [&calls](Address function, std::initializer_list<CallList::Value> arguments) {
    return calls.call(CallList::address(function), arguments);
  };
  // The tid in the pid namespace that this /proc shows. The rest of the buffer stays zero.
  call(functions.readlink, {CallList::address_of(link), CallList::address_of(task),
                            CallList::number(kLongestLink - 1)});
  const auto tid = call(functions.base_name, {CallList::address_of(task)});
  call(functions.sprintf, {CallList::address_of(path), CallList::address_of(text),
                           CallList::result_of(tid), CallList::result_of(file)});
  return CallList::address_of(path);
}

}  // namespace heapsnap
