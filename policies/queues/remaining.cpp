#include "policies/queues/remaining.hpp"

namespace orrery {

std::int64_t SrtfPolicy::key_of(const Track& job) const {
  const Nanos left = job.place.estimate - job.served;
  return job.running ? job.since + left : left;
}

std::int64_t SrtfPolicy::rank(const JobPlace& place, std::uint32_t, bool running, Nanos now) const {
  return running ? place.key - now : place.key;
}

std::int64_t SrsfPolicy::rank(const JobPlace& place, std::uint32_t gpus, bool running,
                              Nanos now) const {
  constexpr Nanos kMillisecond = 1'000'000;
  return SrtfPolicy::rank(place, gpus, running, now) / kMillisecond * gpus;
}

}  // namespace orrery
