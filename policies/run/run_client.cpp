#include <poll.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/process.hpp"
#include "policies/record/recorder.hpp"
#include "policies/run/futures.hpp"
#include "policies/run/outside_policies.hpp"
#include "policies/run/policy_answerer.hpp"
#include "policies/run/policy_failure.hpp"
#include "policies/run/waiting_policy.hpp"
#include "policies/run/worker.hpp"
#include "topologies/builder.hpp"

namespace orrery {
namespace {

using FutureSink = std::function<void(const FutureEnd&)>;

constexpr int kPollMs = 100;
constexpr std::chrono::milliseconds kEndGrace{5000};

/// Client's end of one run.
class Session {
 public:
  /// `program`: path of the program that `child` runs, for messages.
  Session(const std::string& program, ChildProcess child, const RunRequest& request,
          PolicyAnswerer* answerer, const ProgressSink& progress,
          const std::function<bool()>& interrupted, Operator* operated, const FutureSink& futures)
      : program_(program),
        child_(std::move(child)),
        answerer_(answerer),
        falls_back_(request.hand_over().fall_back()),
        progress_(progress),
        interrupted_(interrupted),
        operator_(operated),
        futures_(futures) {
    if (!write_message(child_.channel(), request.SerializeAsString())) throw died();
  }

  /// Returns true if the run has given up its policy, or is over. Blocks for no message; messages
  /// of the run are kept for run().
  bool is_withdrawn() {
    pollfd channel{child_.channel(), POLLIN, 0};
    while (!withdrawn_ && kept_.empty() && ::poll(&channel, 1, 0) > 0) {
      WorkerMessage message;
      read_one(message);
      if (message.has_withdrawn()) {
        withdrawn_ = true;
      } else if (message.has_progress()) {
        if (progress_) progress_(message.progress());
      } else {
        kept_.push_back(std::move(message));
      }
    }
    return withdrawn_ || !kept_.empty();
  }

  Report run() {
    const auto began = std::chrono::steady_clock::now();
    WorkerMessage message;
    while (true) {
      read_next(message);
      if (message.has_failure()) {
        child_.wait_for(kEndGrace);  // the worker cleans up first
        throw_failure(message.failure());
      }
      if (message.has_progress() && progress_) progress_(message.progress());
      if (message.has_ask()) answer(message.ask());
      if (message.has_approval()) put(message.approval());
      if (message.has_future() && futures_) futures_(message.future());
      if (!message.has_report()) continue;
      Report report = std::move(*message.mutable_report());
      const ExitStatus status = end();
      const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - began;
      report.mutable_host()->set_wall_s(wall.count());
      report.mutable_host()->set_cpu_s(status.cpu_s);
      report.mutable_host()->set_peak_rss_bytes(static_cast<double>(status.peak_rss_bytes));
      return report;
    }
  }

 private:
  /// Blocks until the next message, which may be one that was kept, and replaces `message` by it.
  void read_next(WorkerMessage& message) {
    pollfd channel{child_.channel(), POLLIN, 0};
    do {
      if (interrupted_ && interrupted_()) throw Interrupted();
      if (operator_ != nullptr) pass_on_what_the_operator_says();
    } while (kept_.empty() && ::poll(&channel, 1, kPollMs) <= 0);
    if (kept_.empty()) return read_one(message);
    message = std::move(kept_.front());
    kept_.pop_front();
  }

  /// Blocks until the next message of the worker and replaces `message` by it.
  void read_one(WorkerMessage& message) {
    bool is_whole = false;
    try {
      is_whole = read_message(child_.channel(), bytes_);
    } catch (const Error&) {
      end_early();  // the stream ended inside a message
    }
    if (!is_whole) end_early();
    ensure(parse_message(bytes_, message), "a worker sends WorkerMessages");
  }

  void put(const ApprovalAsk& question) {
    ensure(operator_ != nullptr, "there is somebody to ask");
    operator_->request_approval(question);
  }

  void pass_on_what_the_operator_says() {
    for (const ApprovalVerdict& verdict : operator_->verdicts()) {
      PolicyAnswer message;
      *message.mutable_verdict() = verdict;
      // A failure means that the worker died, which read_next() reports.
      write_message(child_.channel(), message.SerializeAsString());
    }
    if (const int number = operator_->signal(); number != 0) child_.signal(number);
    if (halted_ || !operator_->is_halted()) return;
    halted_ = true;
    child_.signal(SIGUSR1);
  }

  /// Sends a request for telemetry (PolicyAnswerer::Fetch).
  const SamplesRead* fetch(const PolicyAnswer& request) {
    request.SerializeToString(&bytes_);
    if (!write_message(child_.channel(), bytes_)) throw died();
    if (request.in_hand()) return nullptr;
    while (true) {
      read_next(telemetry_);
      if (telemetry_.has_read()) return &telemetry_.read();
      if (telemetry_.has_progress()) {
        if (progress_) progress_(telemetry_.progress());
        continue;
      }
      if (telemetry_.has_withdrawn()) {
        withdrawn_ = true;
      } else {
        kept_.push_back(std::move(telemetry_));
      }
      throw AnswerWithdrawn();
    }
  }

  void answer(const PolicyQuestion& asked) {
    ensure(answerer_ != nullptr, "only a policy outside the worker is asked");
    PolicyAnswer answer;
    std::exception_ptr thrown;
    const auto fetched = [this](const PolicyAnswer& request) { return fetch(request); };
    try {
      answer = answerer_->answer_question(asked, fetched);
    } catch (const Interrupted&) {
      throw;
    } catch (const AnswerWithdrawn&) {
      return;
    } catch (const std::exception& error) {
      if (!falls_back_) thrown = std::current_exception();
      answer.set_failure(policy_failure(error));
    }
    if (is_withdrawn()) return;  // the policy has answered or failed too late
    const bool sent = write_message(child_.channel(), answer.SerializeAsString());
    if (thrown != nullptr) {
      child_.wait_for(kEndGrace);  // the worker cleans up first
      std::rethrow_exception(thrown);
    }
    if (!sent) throw died();
  }

  /// Returns the exit status after the last message; kills a worker that does not end.
  ExitStatus end() {
    if (const auto status = child_.wait_for(kEndGrace)) return *status;
    child_.signal(SIGKILL);
    return child_.wait();
  }

  /// Throws Interrupted or WorkerDied. Ctrl-C reaches the worker too, and may end the worker before
  /// this process reads its own flag.
  [[noreturn]] void end_early() {
    if (interrupted_ && interrupted_()) throw Interrupted();
    throw died();
  }

  WorkerDied died() {
    const std::string name = program_.substr(program_.rfind('/') + 1);
    const ExitStatus status = end();
    const char* hint = status.signal == SIGKILL ? " (out of memory, or killed by hand)" : "";
    return WorkerDied(fmt::format("the worker {} ended before it reported: {}{}", name,
                                  status.description(), hint));
  }

  std::string program_;
  ChildProcess child_;
  PolicyAnswerer* answerer_;
  const bool falls_back_;  ///< the run continues after a failure of the policy
  const ProgressSink& progress_;
  const std::function<bool()>& interrupted_;
  Operator* operator_;
  const FutureSink& futures_;
  bool halted_ = false, withdrawn_ = false;
  std::deque<WorkerMessage> kept_;  ///< messages that came while the policy decided
  std::string bytes_;               ///< newest message in either direction
  WorkerMessage telemetry_;         ///< newest answer to fetch(); its memory is that of the next
};

using ChildStarter = std::function<ChildProcess()>;

/// Rule by which a policy of another process stops waiting, for as long as a session lasts.
class WaitRule {
 public:
  WaitRule(Policy* policy, Session& session) : hosted_(dynamic_cast<WaitingPolicy*>(policy)) {
    if (hosted_ != nullptr) hosted_->on_wait([&session] { return session.is_withdrawn(); });
  }
  ~WaitRule() {
    if (hosted_ != nullptr) hosted_->on_wait({});  // a later run may use the policy again
  }
  WaitRule(const WaitRule&) = delete;
  WaitRule& operator=(const WaitRule&) = delete;

 private:
  WaitingPolicy* const hosted_;
};

Report run_in_child(const std::string& program, const ChildStarter& start,
                    const RunRequest& request, Policy* policy, const ProgressSink& progress,
                    const std::function<bool()>& interrupted, Operator* operated,
                    const FutureSink& futures = {}) {
  RunRequest whole = request;
  std::optional<PolicyAnswerer> answerer;
  if (policy != nullptr) {
    answerer.emplace(*policy, build_cluster(request.scenario().cluster(), SourceMap{}),
                     policy_seed(request));
    whole.set_policy_outside(true);
    *whole.mutable_policy_outside_needs() = answerer->needs();
  }
  try {
    Session session(program, start(), whole, answerer ? &*answerer : nullptr, progress, interrupted,
                    operated, futures);
    const WaitRule rule(policy, session);
    Report report = session.run();
    if (operated == nullptr) return report;
    for (std::string& warning : operated->end_run()) report.add_warnings(std::move(warning));
    return report;
  } catch (...) {
    if (operated != nullptr) operated->end_run();
    // A worker that was killed could not remove its unfinished log.
    if (!request.record().empty()) std::remove(partial_log(request.record()).c_str());
    throw;
  }
}

}  // namespace

Report run_in_worker(const std::string& program, const RunRequest& request, Policy* policy,
                     const ProgressSink& progress, const std::function<bool()>& interrupted,
                     Operator* operated) {
  const auto start = [&program] { return ChildProcess(program, {}); };
  return run_in_child(program, start, request, policy, progress, interrupted, operated);
}

Report run_in_worker(ForkServer& server, const RunRequest& request, Policy* policy,
                     const ProgressSink& progress, const std::function<bool()>& interrupted,
                     Operator* operated) {
  const auto start = [&server] { return ChildProcess(server); };
  return run_in_child(server.program(), start, request, policy, progress, interrupted, operated);
}

namespace {

FuturesReport begin_report(const RunRequest& request) {
  FuturesReport all;
  all.set_at(request.futures().at());
  all.set_until(request.until());
  return all;
}

/// Returns a function that adds the result of a future to `all` and tells the progress.
FutureSink future_sink(FuturesReport& all, const FuturesOrder& order,
                       const ProgressSink& progress) {
  return [&](const FutureEnd& end) {
    *all.add_futures() = end;
    if (!progress) return;
    Progress done;
    done.set_steps_done(static_cast<std::uint64_t>(all.futures_size()));
    done.set_steps(std::uint64_t{order.count()} *
                   static_cast<std::uint64_t>(std::max(1, order.choices_size())));
    done.set_note("of the policy clock; futures");
    progress(done);
  };
}

/// Runs one future from its beginning.
FutureEnd run_one_future(const RunRequest& request, std::uint32_t future, std::uint32_t choice,
                         const std::function<Report(RunRequest, std::optional<int>)>& run) {
  RunRequest one = request;
  FuturesOrder& order = *one.mutable_futures();
  order.set_only_future(future);
  order.set_only_choice(choice);
  const bool is_changed =
      !order.choices().empty() && says_something(order.choices(static_cast<int>(choice)));
  if (future > 0 || is_changed) one.clear_record();
  FutureEnd end;
  end.set_future(future);
  end.set_choice(choice);
  try {
    std::optional<int> chosen;
    if (!order.choices().empty()) chosen = static_cast<int>(choice);
    *end.mutable_report() = run(std::move(one), chosen);
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    *end.mutable_failure() = failure_record(error);
  }
  return end;
}

}  // namespace

FuturesReport run_outside_futures(const std::string& program, const RunRequest& request,
                                  const FuturePolicies& policies, const ProgressSink& progress,
                                  const std::function<bool()>& interrupted, std::uint32_t first) {
  check_log_of_futures(request);
  const auto began = std::chrono::steady_clock::now();
  FuturesReport all = begin_report(request);
  const FuturesOrder& order = request.futures();
  const FutureSink tell = future_sink(all, order, progress);
  double cpu_s = 0;
  const auto run = [&](RunRequest one, std::optional<int> choice) {
    const std::unique_ptr<Policy> own = policies(one, choice);
    const auto start = [&program] { return ChildProcess(program, {}); };
    Report report = run_in_child(program, start, one, own.get(), {}, interrupted, nullptr);
    cpu_s += report.host().cpu_s();
    return report;
  };
  RunRequest begun = request;
  begun.clear_record();
  begun.mutable_futures()->set_count(0);
  *all.mutable_begun() = run(std::move(begun), std::nullopt);
  const auto choices = static_cast<std::uint32_t>(std::max(1, order.choices_size()));
  for (std::uint32_t future = first; future < first + order.count(); ++future) {
    for (std::uint32_t choice = 0; choice < choices; ++choice) {
      tell(run_one_future(request, future, choice, run));
    }
  }
  look_ahead(request.scenario().run().steps(), all);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - began;
  all.mutable_begun()->mutable_host()->set_wall_s(wall.count());
  all.mutable_begun()->mutable_host()->set_cpu_s(cpu_s);
  return all;
}

FuturesReport run_futures(const std::string& program, const RunRequest& request,
                          const ProgressSink& progress, const std::function<bool()>& interrupted) {
  FuturesReport all = begin_report(request);
  const FutureSink tell = future_sink(all, request.futures(), progress);
  const auto start = [&program] { return ChildProcess(program, {}); };
  *all.mutable_begun() =
      run_in_child(program, start, request, nullptr, progress, interrupted, nullptr, tell);
  look_ahead(request.scenario().run().steps(), all);
  return all;
}

}  // namespace orrery
