#include "policies/seam/saved_state.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

void load_version(Policy& policy, const std::string& name, std::uint32_t version, Archive state) {
  const std::uint32_t own = policy.state_version();
  if (version != own && !policy.convert_state(state, version)) {
    throw Error(ErrorKind::bad_input,
                fmt::format("policy '{}': expected a saved state of version {}, found version {}, "
                            "which the policy does not convert; continue with the policy that "
                            "saved the state, or begin the run again",
                            name, own, version));
  }
  policy.load(state);
}

}  // namespace

void write_state(ByteWriter& write, const std::string& name, const Policy& policy,
                 Archive& buffer) {
  buffer.clear();
  policy.save(buffer);
  write(name);
  write(policy.state_version());
  write(buffer);
}

void read_state(ByteReader& read, const std::string& name, Policy& policy) {
  std::string saved_name, state;
  std::uint32_t version = 0;
  read(saved_name);
  read(version);
  read(state);
  if (saved_name != name) {
    throw Error(ErrorKind::bad_input,
                fmt::format("expected the saved state of policy '{}', found that of '{}'; continue "
                            "with the policies that saved the state, in their order",
                            name, saved_name));
  }
  load_version(policy, name, version, std::move(state));
}

void transfer_state(const Policy& from, Policy& to, const std::string& name) {
  Archive state;
  from.save(state);
  load_version(to, name, from.state_version(), std::move(state));
}

}  // namespace orrery
