// Rank of a program without PyTorch for tests of `orrery run`: the connection of a real rank
// (live/torch/control) and steps that are pauses. STEPS: number of steps; CODE: exit code of rank
// 0.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "live/group/messages.hpp"
#include "live/torch/control.hpp"

namespace {

constexpr int kDescriptor = 3;
constexpr std::chrono::milliseconds kStep{20};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Returns the folder of the sockets, from the settings of the attachment.
std::string folder() {
  const std::string told = variable("ORRERY_RUN"), key = "\"store\":\"";
  const std::size_t from = told.find(key) + key.size();
  const std::string store = told.substr(from, told.find('"', from) - from);
  return store.substr(0, store.rfind('/'));
}

}  // namespace

int main() {
  using namespace orrery::live;
  const std::size_t rank = std::stoull(variable("RANK"));
  std::uint64_t done = 0;
  auto* const control = new ProgramControl(
      kDescriptor, rank, folder(),
      {.heard =
           [rank](const ProgramEpoch& epoch) {
             std::printf("rank %zu hears epoch %zu with %s\n", rank, std::size_t(epoch.number),
                         list_of(epoch.members).c_str());
             std::fflush(stdout);
           },
       .others = [](const Fields&) {},
       .done_counts = [] { return DoneCounts{}; },
       .addresses = [] { return Addresses{}; },
       .connected =
           [rank](bool is_connected) {
             std::printf("rank %zu %s\n", rank, is_connected ? "is taken over" : "goes on alone");
             std::fflush(stdout);
           },
       .watch_alone = [] {},
       .steps = [&done] { return done; }});
  control->epoch();
  control->send_fields(message_of(MessageKind::group, {"gloo:0:all#0", "default_pg", "3"}));
  const std::uint64_t steps = std::stoull(variable("STEPS"));
  for (std::uint64_t step = 1; step <= steps; ++step) {
    std::this_thread::sleep_for(kStep);
    done = step;
    const double now_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    control->send_fields(
        message_of(MessageKind::step, {std::to_string(step), std::to_string(now_s), "0", "0"}));
  }
  control->leave_run();
  std::printf("rank %zu ended after %zu steps\n", rank, std::size_t(steps));
  std::fflush(stdout);
  return rank == 0 ? std::atoi(variable("CODE").c_str()) : 0;
}
