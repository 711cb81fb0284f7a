#include "live/rank/failure.hpp"

#include <cstdint>
#include <new>

#include "live/training/pace.hpp"
#include "live/training/sharded_optimizer.hpp"

namespace orrery::live {
namespace {

/// Returns the report of an error that only this process or its machine has.
AgentMessage make_local_failure(const std::string& reason) {
  AgentMessage message = make_failure(ErrorKind::environment, reason);
  message.mutable_failed()->set_local(true);
  return message;
}

}  // namespace

AgentMessage make_failure(ErrorKind kind, const std::string& reason) {
  AgentMessage message;
  message.mutable_failed()->set_kind(static_cast<std::uint32_t>(kind));
  message.mutable_failed()->set_reason(reason);
  return message;
}

AgentMessage failure_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const StateLost& lost) {
    AgentMessage failure = make_failure(lost.kind(), lost.message());
    failure.mutable_failed()->set_state_lost(true);
    return failure;
  } catch (const PaceMissed& missed) {
    return make_failure(missed.kind(), missed.message());
  } catch (const Error& other) {
    const bool local = other.kind() == ErrorKind::environment;
    return local ? make_local_failure(other.message())
                 : make_failure(other.kind(), other.message());
  } catch (const std::bad_alloc&) {
    return make_local_failure("out of memory");
  } catch (const std::exception& other) {
    return make_failure(ErrorKind::internal, other.what());
  }
}

}  // namespace orrery::live
