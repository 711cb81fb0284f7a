// Programs that are a policy: a policy in C++ that is built outside of Orrery, against the library
// orrery_policy and its CMake package OrreryPolicy (docs/cpp-policies.md). The command line starts
// the program beside a run (HostPolicy) and asks it over a socket, as it asks a policy in Python.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "policies/seam/policy.hpp"

namespace orrery {

/// Version of the interface of policies outside of Orrery: the headers that the package installs.
/// A program of another version is refused by name. 0 until release 1.0: a new version of Orrery
/// may need another build of the program.
inline constexpr std::uint32_t kPolicyApi = 0;

/// Serves a policy to the process that started this program, until that process is gone; body of
/// main(). `api`: kPolicyApi of the program's headers. `make_policy` returns the policy of a run.
/// What the policy prints goes to standard error. An exception of observe() ends the program, and
/// the run receives its message with the name of the program and the instant. Returns the exit
/// code; 2, with a text on standard error, if nobody asks on kChildDescriptor.
int serve_policy_program(std::uint32_t api,
                         const std::function<std::unique_ptr<Policy>()>& make_policy);

}  // namespace orrery

/// Makes a program of the policy of type `Type`, which has a default constructor.
#define ORRERY_POLICY(Type)                                                       \
  int main() {                                                                    \
    return orrery::serve_policy_program(orrery::kPolicyApi,                       \
                                        [] { return std::make_unique<Type>(); }); \
  }
