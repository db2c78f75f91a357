#include "platform/linux/inject/thread_refusal.h"

#include <cerrno>

#include "base/error.h"
#include "platform/linux/proc/pid_namespaces.h"

namespace heapsnap {

namespace {

std::string look_without_thread(int pid) {
  return "look at it without a thread in it: heapsnap attach " + std::to_string(pid);
}

}  // namespace

ThreadRefusal clone_refusal(const ProcFs& proc, int pid, int tid, int error) {
  if ((error == EINVAL || error == 0) && creates_children_elsewhere(proc, tid)) {
    return {
        "its children are created in another PID namespace (CLONE_NEWPID of unshare(2) or "
        "setns(2)), and the kernel then lets it create no thread",
        "have it return to its own namespace, by setns(2) with /proc/self/ns/pid; or " +
            look_without_thread(pid)};
  }
  std::string why = "clone did not succeed";
  if (error == 0) return {why, kMoreTasks};
  why += ": " + errno_text(error);
  return {why, error == EAGAIN ? kMoreTasks : look_without_thread(pid)};
}

ThreadRefusal creation_refusal(int pid, int error, bool bars_clone3) {
  std::string why = "pthread_create failed in it: " + errno_text(error);
  if (error == EAGAIN) return {why, kMoreTasks};
  if (!bars_clone3) return {why, look_without_thread(pid)};
  why += ", since its seccomp filter forbids clone3; glibc calls clone instead only after ENOSYS";
  return {why,
          "have the filter allow clone3(2), or answer it with ENOSYS (Docker allows it from "
          "20.10.10 on); or " +
              look_without_thread(pid)};
}

}  // namespace heapsnap
