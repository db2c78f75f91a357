#include "references/side_work.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <system_error>

using namespace heapsnap;

namespace {

std::thread start(std::function<void()> body) {
  return std::thread(std::move(body));
}

}  // namespace

TEST_CASE("work beside is done at its end, on another thread or on this one") {
  for (const StartThread& how : {StartThread(start), StartThread()}) {
    std::thread::id worker;
    SideWork work(how, [&worker] { worker = std::this_thread::get_id(); });
    work.finish();
    CHECK(worker != std::thread::id());
    CHECK((worker == std::this_thread::get_id()) == !how);
  }
}

TEST_CASE("where no thread can be started, the work is done all the same") {
  const auto refuse = [](const std::function<void()>&) -> std::thread {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  };
  bool is_done = false;
  SideWork(refuse, [&is_done] { is_done = true; }).finish();
  CHECK(is_done);
}

TEST_CASE("what work beside throws comes at its end, and only to who asks") {
  for (const StartThread& how : {StartThread(start), StartThread()}) {
    const auto fail = [] { throw std::runtime_error("no"); };
    SideWork work(how, fail);
    CHECK_THROWS_AS(work.finish(), std::runtime_error);
    const SideWork left(how, fail);
  }
}
