// The worker of the tests: serves a run in the toy world, and misbehaves as RunRequest.fabric
// says. Started as "toy_worker client WORKER" it is the client of a run that never ends.
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <new>
#include <string>

#include "core/process.hpp"
#include "policies/run/worker.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

void misbehave(const std::string& how) {
  if (how == "refuse") throw Error(SourcePlace{"toy.yaml", 2, 3, "a line"}, "as asked");
  if (how == "break") throw std::runtime_error("something broke");
  if (how == "no memory") throw std::bad_alloc();
  if (how == "kill") raise(SIGKILL);
  if (how == "exit") _exit(9);
  if (how == "hang") {
    while (true) pause();
  }
}

class Misbehaving : public toy::ToyBackend, public BranchingRun {
 public:
  Misbehaving(const RunRequest& request, const Cluster& cluster, ProgressSink progress)
      : ToyBackend(cluster, request.scenario().run().steps()),
        how_(request.fabric()),
        progress_(std::move(progress)) {}

  void branch_at(Nanos at, std::function<Continuation()> branch) override {
    branch_at_ = at;
    branch_ = std::move(branch);
  }

  void continue_from(std::unique_ptr<Past>, std::function<bool()>) override {
    throw Error(ErrorKind::bad_input, "the toy has no past");
  }
  void end_at(Nanos) override { throw Error(ErrorKind::bad_input, "the toy ends by itself"); }

  std::optional<Observation> next() override {
    if (branch_ && now_ >= branch_at_) {
      const Continuation on = std::exchange(branch_, {})();
      if (on.seed && how_ == "futures die") misbehave("kill");
      if (on.seed && how_ == "futures break") misbehave("break");
    }
    std::optional<Observation> seen = ToyBackend::next();
    if (seen) now_ = seen->now;
    if (seen && seen->sequence == 0) {
      Progress progress;
      progress.set_note(std::to_string(getpid()));
      progress_(progress);
    }
    if (how_ == "chatty") {
      for (int i = 0; i < 100000; ++i) progress_(Progress{});
    } else if (seen && seen->sequence == 20) {
      misbehave(how_);
    }
    return seen;
  }

 private:
  std::string how_;
  ProgressSink progress_;
  Nanos now_ = -1, branch_at_ = 0;
  std::function<Continuation()> branch_;
};

/// Starts a run that hangs and tells its parent the worker's process id.
int be_client(const std::string& worker) {
  RunRequest request;
  *request.mutable_scenario() = toy::scenario();
  request.set_fabric("hang");
  run_in_worker(worker, request, nullptr, [](const Progress& progress) {
    write_message(kChildDescriptor, progress.note());
  });
  return 0;
}

}  // namespace
}  // namespace orrery

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "client") return orrery::be_client(argv[2]);
  const bool forked = argc == 2 && std::string(argv[1]) == orrery::kForkServerArgument;
  if (forked) orrery::serve_forks();
  return orrery::serve_run("toy", [](const orrery::RunRequest& request,
                                     const orrery::Cluster& cluster,
                                     const orrery::ProgressSink& progress) {
    return std::make_unique<orrery::Misbehaving>(request, cluster, progress);
  }, forked);
}
