#include "policies/run/policy_program.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "policies/run/host_policy.hpp"
#include "policies/run/policy_failure.hpp"
#include "policies/seam/saved_state.hpp"

namespace orrery {
namespace {

std::string program_name() {
  std::error_code unknown;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return unknown ? std::string("the policy") : path.filename().string();
}

bool is_asked() {
  struct stat status {};
  return fstat(kChildDescriptor, &status) == 0 && S_ISSOCK(status.st_mode);
}

/// Policy whose exceptions name the program and the instant, and whose saved state has the name of
/// the program and its state version.
class NamedPolicy : public Policy {
 public:
  explicit NamedPolicy(std::unique_ptr<Policy> inner) : inner_(std::move(inner)) {}

  Needs needs() const override { return inner_->needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    inner_->start(context, cluster, parameters);
  }
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    try {
      inner_->observe(context, seen, decisions);
    } catch (const Error& error) {
      fail(seen, error.message());
    } catch (const std::exception& error) {
      fail(seen, error.what());
    }
  }
  void save(Archive& archive) const override {
    ByteWriter write(archive);
    write_state(write, program_name(), *inner_, own_);
  }
  void load(const Archive& archive) override {
    ByteReader read(archive);
    read_state(read, program_name(), *inner_);
  }

 private:
  [[noreturn]] static void fail(const Observation& seen, const std::string& what) {
    throw Error(ErrorKind::bad_input,
                fmt::format("{} failed in call {} at {:.6g} s: {}", program_name(), seen.sequence,
                            to_seconds(seen.now), what));
  }

  const std::unique_ptr<Policy> inner_;
  mutable Archive own_;  ///< buffer of save()
};

Failure failure_of(const std::exception& error) {
  if (const auto* own = dynamic_cast<const Error*>(&error)) return failure_record(*own);
  return failure_record(
      Error(ErrorKind::bad_input, fmt::format("{} failed: {}", program_name(), error.what())));
}

}  // namespace

int serve_policy_program(std::uint32_t api,
                         const std::function<std::unique_ptr<Policy>()>& make_policy) {
  if (!is_asked()) {
    fmt::print(stderr,
               "{0}: expected a run that asks this policy, found none; this program is a policy of "
               "Orrery (API version {1}):\n  orrery simulate SCENARIO --policy ./{0}\n",
               program_name(), api);
    return 2;
  }
  std::signal(SIGINT, SIG_IGN);  // the command line ends this process
  dup2(STDERR_FILENO, STDOUT_FILENO);
  serve_policy(
      [&](const PolicyHostOrder&) -> std::unique_ptr<Policy> {
        return std::make_unique<NamedPolicy>(make_policy());
      },
      failure_of, api);
  return 0;
}

}  // namespace orrery
