#include "policies/run/host_policy.hpp"

#include <poll.h>

#include <chrono>
#include <csignal>
#include <exception>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "policies/run/policy_answerer.hpp"
#include "policies/run/policy_failure.hpp"
#include "policies/run/policy_program.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/remote_policy.hpp"
#include "policies/run/worker.hpp"
#include "topologies/builder.hpp"

namespace orrery {
namespace {

constexpr int kPollMs = 100;
constexpr std::chrono::milliseconds kEndGrace{1000};
constexpr int kNoPackage = 64, kNoProgram = 127;  // exit codes of a host that cannot work
constexpr int kPatientPolls = 25;                 // a run that is interrupted still asks

Cluster cluster_of(const PolicyHostOrder& order) {
  if (order.has_replay()) return orrery::cluster_of(order.replay());
  return build_cluster(order.scenario().cluster(), SourceMap{});
}

}  // namespace

/// Running policy host with the policy that asks it.
class HostPolicy::Host : public PolicyChannel {
 public:
  Host(const Program& program, const PolicyHostOrder& order,
       const std::function<bool()>& interrupted, const std::function<bool()>& withdrawn)
      : child_(program.path, program.arguments),
        interrupted_(interrupted),
        withdrawn_(withdrawn),
        policy_(*this) {
    write_message(child_.channel(), order.SerializeAsString());  // a dead host is reported below
    const PolicyAnswer first = first_answer(program);
    if (!program.name.empty()) check_api(program.name, first);
    if (first.has_raised()) throw_failure(first.raised());
    policy_.set_needs(first.needs());
    policy_.set_state(first.state());
  }

  /// Waits, at most kEndGrace, for the process to end by itself, so that policies can print.
  ~Host() override {
    child_.close_channel();
    child_.wait_for(kEndGrace);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  void send_message(const WorkerMessage& message) override {
    message.SerializeToString(&bytes_);
    if (!write_message(child_.channel(), bytes_)) report_end();
  }
  PolicyAnswer receive_answer() override {
    pollfd channel{child_.channel(), POLLIN, 0};
    for (int polls = 0; ::poll(&channel, 1, kPollMs) <= 0;) {
      if (interrupted_ && interrupted_() && ++polls > kPatientPolls) throw Interrupted();
      if (withdrawn_ && withdrawn_()) {
        child_.signal(SIGKILL);
        throw AnswerWithdrawn();
      }
    }
    if (!read_message(child_.channel(), bytes_)) report_end();
    PolicyAnswer answer;
    ensure(answer.ParseFromString(bytes_), "a policy host sends PolicyAnswers");
    return answer;
  }
  RemotePolicy& policy() { return policy_; }

 private:
  /// Returns the needs, or the reason why the policies could not be made.
  PolicyAnswer first_answer(const Program& program) {
    try {
      return receive_answer();
    } catch (const Interrupted&) {
      throw;
    } catch (const Error&) {
      const ExitStatus status = child_.wait();
      if (!program.name.empty()) {
        throw Error(ErrorKind::bad_input,
                    fmt::format("{}: expected a policy, which is a program built with the CMake "
                                "package OrreryPolicy, found a program that ended: {}",
                                program.name, status.description()));
      }
      if (status.code == kNoPackage || status.code == kNoProgram) {
        throw Error(ErrorKind::environment, program.absence);
      }
      throw;
    }
  }
  static void check_api(const std::string& name, const PolicyAnswer& first) {
    if (first.has_api() && first.api() == kPolicyApi) return;
    const std::string found =
        first.has_api() ? fmt::format("version {}", first.api()) : std::string("no version");
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: expected a policy of API version {}, found {}; build the policy "
                            "again with the CMake package OrreryPolicy of this orrery",
                            name, kPolicyApi, found));
  }
  [[noreturn]] void report_end() {
    throw Error(ErrorKind::environment,
                fmt::format("the process of the policies ended: {}", child_.wait().description()));
  }

  ChildProcess child_;
  const std::function<bool()>& interrupted_;
  const std::function<bool()>& withdrawn_;
  std::string bytes_;  ///< newest message in either direction
  RemotePolicy policy_;
};

HostPolicy::HostPolicy(Program program, PolicyHostOrder order, std::function<bool()> interrupted)
    : program_(std::move(program)),
      order_(std::move(order)),
      interrupted_(std::move(interrupted)) {}
HostPolicy::~HostPolicy() = default;

Needs HostPolicy::needs() const {
  ensure(host_ != nullptr, "a policy host is started before it is asked");
  return host_->policy().needs();
}
void HostPolicy::start(Context&, const Cluster&, const google::protobuf::Message*) {
  host_.reset();
  host_ = std::make_unique<Host>(program_, order_, interrupted_, withdrawn_);
}
void HostPolicy::observe(Context& context, const Observation& seen, DecisionList& decisions) {
  host_->policy().observe(context, seen, decisions);
}
void HostPolicy::announce_others(const DecisionList& all) { host_->policy().announce_others(all); }
void HostPolicy::save(Archive& archive) const { host_->policy().save(archive); }
void HostPolicy::load(const Archive& archive) { host_->policy().load(archive); }
void HostPolicy::follow_observation(const Context& context, const Observation& seen) {
  host_->policy().follow_observation(context, seen);
}
void HostPolicy::announce_decision(const Decision& decision) {
  host_->policy().announce_decision(decision);
}

void serve_policy(const std::function<std::unique_ptr<Policy>(const PolicyHostOrder&)>& make_policy,
                  const std::function<Failure(const std::exception&)>& failure_of,
                  std::optional<std::uint32_t> api) {
  std::string bytes;  // newest message in either direction
  const auto send = [&bytes](const PolicyAnswer& answer) {
    answer.SerializeToString(&bytes);
    return write_message(kChildDescriptor, bytes);
  };
  const auto receive = [&bytes](WorkerMessage& message) {
    if (!read_message(kChildDescriptor, bytes)) return false;
    ensure(parse_message(bytes, message), "a policy host is sent WorkerMessages");
    return true;
  };
  WorkerMessage telemetry;
  const auto fetch = [&](const PolicyAnswer& request) -> const SamplesRead* {
    send(request);
    if (request.in_hand()) return nullptr;
    const bool sent = receive(telemetry);
    if (!sent) throw Error(ErrorKind::environment, "the process of the run is gone");
    return &telemetry.read();
  };
  PolicyAnswer answer;
  try {
    PolicyHostOrder order;
    ensure(read_message(kChildDescriptor, bytes) && order.ParseFromString(bytes),
           "a policy host is sent its order first");
    const std::unique_ptr<Policy> policy = make_policy(order);
    PolicyAnswerer answerer(*policy, cluster_of(order), order.seed());
    *answer.mutable_needs() = answerer.needs();
    *answer.mutable_state() = answerer.state();
    if (api) answer.set_api(*api);
    WorkerMessage question;
    while (send(answer)) {
      if (!receive(question)) return;
      answer = answerer.answer_question(question.ask(), fetch);
    }
  } catch (const std::exception& error) {
    answer.Clear();
    *answer.mutable_raised() = failure_of(error);
    if (api) answer.set_api(*api);
    send(answer);
  }
}

}  // namespace orrery
