#include "live/supervisor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "live/rendezvous.hpp"
#include "live/run/files/run_folder.hpp"
#include "live/run/live_backend.hpp"
#include "live/run/processes/agent_processes.hpp"
#include "live/transport/secrets.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/run/worker.hpp"
#include "traces/report/report.hpp"

namespace orrery::live {
namespace {

constexpr int kPollMs = 50;
constexpr std::chrono::milliseconds kEndPatience{5000};
constexpr std::chrono::milliseconds kStartPatience{8000};  // start time of another controller

volatile std::sig_atomic_t halt_asked = 0;

bool readable(int descriptor, short events = POLLIN) {
  pollfd look{descriptor, events, 0};
  return poll(&look, 1, 0) == 1;
}

/// The next message; nothing if the other end is gone, also in the middle of one.
std::optional<std::string> read_if_whole(int descriptor) {
  try {
    return read_message(descriptor);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Reports an error to the client. Returns the exit code.
int report_failure(const Error& error) {
  WorkerMessage message;
  message.mutable_failure()->set_kind(static_cast<std::uint32_t>(error.kind()));
  message.mutable_failure()->set_message(error.message());
  write_message(kChildDescriptor, message.SerializeAsString());
  return static_cast<int>(error.kind());
}

/// A controller and the two sockets to it.
class Controller {
 public:
  explicit Controller(const std::string& program) {
    std::array<int, 2> line{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line.data()) != 0) {
      throw Error(ErrorKind::environment,
                  fmt::format("no descriptors left: {}", std::strerror(errno)));
    }
    line_ = line[0];
    fcntl(line[1], F_SETFD, 0);  // this child alone inherits it: no other thread starts any
    try {
      process_.emplace(program, std::vector<std::string>{"controller", std::to_string(line[1])});
    } catch (...) {
      close(line[1]);
      close(line_);
      throw;
    }
    close(line[1]);
  }
  ~Controller() { close(line_); }
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  int line() const { return line_; }
  int channel() const { return process_->channel(); }
  void signal(int number) { process_->signal(number); }
  /// One that has closed its sockets is about to end.
  ExitStatus end() {
    if (!process_->wait_for(kEndPatience)) process_->signal(SIGKILL);
    return process_->wait();
  }

 private:
  int line_ = -1;
  std::optional<ChildProcess> process_;
};

/// Returns the folder for the checkpoints in memory of a run; null for a run without checkpoints,
/// for ranks of several machines, and on a machine without a file system in memory.
std::unique_ptr<RunFolder> make_memory(const std::string& request) {
  RunRequest asked;
  if (!asked.ParseFromString(request)) return nullptr;
  if (!asked.scenario().has_checkpoints() || asked.has_rendezvous()) return nullptr;
  try {
    return std::make_unique<RunFolder>(kMemoryParent);
  } catch (const Error&) {
    return nullptr;
  }
}

class Supervisor {
 public:
  explicit Supervisor(std::string request)
      : request_(std::move(request)),
        program_(sibling_program("orrery-live")),
        memory_(make_memory(request_)),
        agents_(program_) {
    RunRequest asked;
    ensure(asked.ParseFromString(request_), "the request is a RunRequest");
    const bool encrypted = asked.scenario().live().tls();
    if (asked.scenario().has_checkpoints()) note_first_signal();
    if (asked.has_rendezvous()) {
      meeting_.emplace(asked.rendezvous(), encrypted);
      address_ = meeting_->controller_address();
    } else {
      authority_.emplace(encrypted);
      write_secrets(authority_->issue_secrets(), folder_.path());
    }
  }

  int run() {
    start_controller();
    while (true) {
      wait();
      if (readable(kChildDescriptor) && !pass_on_request()) {
        return static_cast<int>(ErrorKind::environment);  // the client is gone
      }
      while (readable(controller_->line()) && take_order()) {}
      for (const AgentState& state : agents_.drain_exited()) tell(state);
      renew_if_due();
      halt_if_asked();
      stop_if_asked();
      if (!readable(controller_->channel()) || pass_on_answer()) continue;
      const ExitStatus status = controller_->end();
      if (has_reported_) return status.code;
      while (take_order()) {  // orders sent before
      }
      if (!may_restart()) return fail(status);
      ++restarts_;
      start_next_controller();
    }
  }

 private:
  void start_controller() {
    controller_.reset();
    controller_.emplace(program_);
    SupervisorMessage message;
    ControllerStart& start = *message.mutable_start();
    start.set_folder(folder_.path());
    start.set_address(address_);
    if (memory_) start.set_memory(memory_->path());
    start.set_restarts(restarts_);
    for (const AgentState& state : agents_.states()) *start.add_agents() = state;
    start.set_halted(halt_asked != 0);
    if (meeting_) start.set_secrets(meeting_->folder());
    if (meeting_) start.set_listen(meeting_->host());
    halted_ = halt_asked != 0;
    speaks_ = stop_told_ = false;
    // One that is dead already is noticed by its channel.
    write_message(controller_->line(), message.SerializeAsString());
    write_message(controller_->channel(), request_);
  }

  /// The machine may lack descriptors or memory for a while; the agents wait a little longer.
  void start_next_controller() {
    const auto deadline = std::chrono::steady_clock::now() + kStartPatience;
    while (true) {
      try {
        return start_controller();
      } catch (const Error&) {
        if (std::chrono::steady_clock::now() > deadline) throw;
        poll(nullptr, 0, kPollMs);
      }
    }
  }

  void wait() {
    std::vector<pollfd> descriptors{{kChildDescriptor, POLLIN, 0},
                                    {controller_->line(), POLLIN, 0},
                                    {controller_->channel(), POLLIN, 0}};
    for (const int channel : agents_.channels()) descriptors.push_back({channel, POLLIN, 0});
    poll(descriptors.data(), descriptors.size(), kPollMs);
  }

  bool pass_on_request() {
    const auto bytes = read_if_whole(kChildDescriptor);
    if (bytes) write_message(controller_->channel(), *bytes);
    return bytes.has_value();
  }

  /// False when the controller has closed its end.
  bool pass_on_answer() {
    const auto bytes = read_if_whole(controller_->channel());
    if (!bytes) return false;
    speaks_ = true;
    WorkerMessage message;
    ensure(message.ParseFromString(*bytes), "a controller sends WorkerMessages");
    has_reported_ = message.has_report() || message.has_failure();
    // A client that does not read holds nobody up.
    if (message.has_progress() && !readable(kChildDescriptor, POLLOUT)) return true;
    write_message(kChildDescriptor, *bytes);
    return true;
  }

  bool take_order() {
    const auto bytes = read_if_whole(controller_->line());
    if (!bytes) return false;
    SupervisorOrder order;
    ensure(order.ParseFromString(*bytes), "a controller sends SupervisorOrders");
    speaks_ = true;
    if (order.has_start()) {
      address_ = order.start().start().controller_address();
      if (meeting_) meeting_->announce_address(address_);
      agents_.start(order.start().rank(), order.start().start());
    }
    if (order.has_signal()) {
      agents_.signal({order.signal().rank(), order.signal().life()}, order.signal().number());
    }
    if (order.kind_case() == SupervisorOrder::kFinal) final_ = order.final();
    return true;
  }

  void tell(const AgentState& state) {
    SupervisorMessage message;
    *message.mutable_ended() = state;
    write_message(controller_->line(), message.SerializeAsString());
  }

  /// Renews the certificate if it is due. New connections read it. A failed write is repeated.
  void renew_if_due() {
    Authority* const authority = meeting_ ? meeting_->authority() : &*authority_;
    if (authority == nullptr) return;
    if (authority->is_renewal_due()) unwritten_ = authority->issue_secrets();
    if (!unwritten_ || !renew_secrets(*unwritten_, secrets_folder())) return;
    unwritten_.reset();
    SupervisorMessage message;
    message.set_renewed(true);
    write_message(controller_->line(), message.SerializeAsString());
  }

  const std::string& secrets_folder() const {
    return meeting_ ? meeting_->folder() : folder_.path();
  }

  /// Not before the controller has said something: it might not be listening to signals yet.
  void halt_if_asked() {
    if (halt_asked == 0 || halted_ || !speaks_) return;
    halted_ = true;
    controller_->signal(SIGUSR1);
  }

  /// A signal that asks for the end: the run leaves a checkpoint first.
  void stop_if_asked() {
    if (noted_signal() == 0 || stop_told_ || !speaks_) return;
    stop_told_ = true;
    SupervisorMessage message;
    message.mutable_stop()->set_reason(fmt::format("stopped by signal {}", noted_signal()));
    message.mutable_stop()->set_checkpoint(true);
    write_message(controller_->line(), message.SerializeAsString());
  }

  bool may_restart() const { return final_.empty() && restarts_ < kControllerRestarts; }

  int fail(const ExitStatus& status) {
    const std::string why =
        !final_.empty() ? final_ : fmt::format("it had been restarted {} times", restarts_);
    return report_failure(
        Error(ErrorKind::internal,
              fmt::format("the controller of the run died: {}; {}", status.description(), why)));
  }

  const std::string request_, program_;
  /// Folder of the checkpoints in memory. Made before folder_, whose secrets go away with a crash.
  const std::unique_ptr<RunFolder> memory_;
  const RunFolder folder_;
  std::optional<MeetingPoint> meeting_;
  std::optional<Authority> authority_;  ///< set in runs without a meeting point
  std::optional<Secrets> unwritten_;
  OwnedProcesses agents_;
  std::optional<Controller> controller_;
  std::string address_;  ///< address of the controllers
  unsigned restarts_ = 0;
  std::string final_;  ///< why it must not be restarted
  bool has_reported_ = false, halted_ = false, speaks_ = false, stop_told_ = false;
};

}  // namespace

int run_supervisor() {
  std::signal(SIGUSR1, [](int) { halt_asked = 1; });
  // The client may be killed: SIGTERM leaves time to delete the secrets.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  const auto request = read_message(kChildDescriptor);
  if (!request) {
    throw Error(ErrorKind::usage, "this program is started by orrery, not by hand");
  }
  try {
    return Supervisor(*request).run();
  } catch (const Error& error) {
    return report_failure(error);
  }
}

int run_controller(int descriptor) {
  // An allocation failure ends the process as if killed: another controller continues from the
  // journal.
  std::set_new_handler([] {
    constexpr std::string_view kWords = "orrery-live: the controller is out of memory\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, kWords.data(), kWords.size());
    std::abort();
  });
  std::signal(SIGXFSZ, SIG_IGN);  // a journal that cannot grow is no reason to end the run
  Supervision supervision(descriptor);
  const std::string world(name_of(ReportWorld::live));
  return serve_run(world, [&supervision](const RunRequest& request, const Cluster& cluster,
                                         const ProgressSink& progress) {
    if (supervision.start().halted()) std::raise(SIGUSR1);
    if (request.policy_outside() || hand_over_mode(request.mode()) == HandOverMode::approve) {
      supervision.forbid_restart(
          "decisions and approvals from outside the process cannot be "
          "repeated");
    }
    return make_live_backend(request, cluster, progress, supervision);
  });
}

}  // namespace orrery::live
