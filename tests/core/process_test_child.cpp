// The other side of process_test.cpp: a program that does what its first argument says.
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
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
[[noreturn]] void parent(const std::string& program) {
  const orrery::ChildProcess child(program, {"sleep"});
  orrery::write_message(orrery::kChildDescriptor, std::to_string(child.pid()));
  sleep_for_ever();
}

}  // namespace

int main(int, char** argv) {
  const std::string mode = argv[1];
  if (mode == "exit") return std::atoi(argv[2]);
  if (mode == "echo") return echo();
  if (mode == "parent") parent(argv[0]);
  if (mode == "stubborn") {
    signal(SIGTERM, SIG_IGN);
    orrery::write_message(orrery::kChildDescriptor, "deaf");
  }
  if (mode == "torn") return write(orrery::kChildDescriptor, "\x08\0\0\0abc", 7) == 7 ? 0 : 1;
  if (mode == "torn-head") return write(orrery::kChildDescriptor, "\x08\0", 2) == 2 ? 0 : 1;
  if (mode == "huge") return write(orrery::kChildDescriptor, "\xff\xff\xff\xff", 4) == 4 ? 0 : 1;
  sleep_for_ever();
}
