// Child program of process_test.cpp: behaves as its first argument says.
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "core/process.hpp"

namespace {

[[noreturn]] void sleep_for_ever() {
  while (true) ::poll(nullptr, 0, 1000);
}

int echo() {
  while (const auto message = orrery::read_message(orrery::kChildDescriptor)) {
    if (!orrery::write_message(orrery::kChildDescriptor, *message)) return 1;
  }
  return 0;
}

// Starts a child of its own, tells who it is, and lives on.
[[noreturn]] void parent(const std::string& program, orrery::ChildEnd end) {
  const orrery::ChildProcess child(program, {"sleep"}, orrery::ChildGroup::own, end);
  orrery::write_message(orrery::kChildDescriptor, std::to_string(child.pid()));
  sleep_for_ever();
}

// The same with a fork: tells its own children, the server and the fork, which has said "ready".
[[noreturn]] void fork_parent(const std::string& program) {
  orrery::ForkServer server(program);
  const orrery::ChildProcess child(server);
  orrery::write_message(child.channel(), "sleep");
  orrery::read_message(child.channel());
  const std::string own = std::to_string(getpid());
  std::ifstream list("/proc/" + own + "/task/" + own + "/children");
  std::string children;
  std::getline(list, children);
  orrery::write_message(orrery::kChildDescriptor, children);
  sleep_for_ever();
}

// Forks where it stands; both sides end, and an older child of this process must not notice.
int fork_here(const std::string& program) {
  const orrery::ChildProcess older(program, {"echo"});
  if (auto child = orrery::ChildProcess::fork_here()) {
    const std::string said = orrery::read_message(child->channel()).value_or("nothing");
    const std::string how = child->wait().description();
    orrery::write_message(older.channel(), said + ", " + how);
    const auto echoed = orrery::read_message(older.channel());
    return orrery::write_message(orrery::kChildDescriptor, echoed.value_or("none")) ? 0 : 1;
  }
  orrery::write_message(orrery::kChildDescriptor, "here");
  return 5;
}

}  // namespace

int main(int, char** argv) {
  std::string mode = argv[1];
  if (mode == orrery::kForkServerArgument) {
    orrery::serve_forks();
    mode = orrery::read_message(orrery::kChildDescriptor).value_or("exit");
    if (mode == "exit") return 7;
    if (mode == "sleep") orrery::write_message(orrery::kChildDescriptor, "ready");
  }
  if (mode == "exit") return std::atoi(argv[2]);
  if (mode == "fork-parent") fork_parent(argv[0]);
  if (mode == "fork-here") return fork_here(argv[0]);
  if (mode == "echo") return echo();
  if (mode == "parent") parent(argv[0], orrery::ChildEnd::with_parent);
  if (mode == "survived-parent") parent(argv[0], orrery::ChildEnd::by_itself);
  if (mode == "stubborn") {
    signal(SIGTERM, SIG_IGN);
    orrery::write_message(orrery::kChildDescriptor, "deaf");
  }
  if (mode == "torn") return write(orrery::kChildDescriptor, "\x08\0\0\0abc", 7) == 7 ? 0 : 1;
  if (mode == "torn-head") return write(orrery::kChildDescriptor, "\x08\0", 2) == 2 ? 0 : 1;
  if (mode == "huge") return write(orrery::kChildDescriptor, "\xff\xff\xff\xff", 4) == 4 ? 0 : 1;
  sleep_for_ever();
}
