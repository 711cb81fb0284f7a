// Key-value store for the process groups of a user's program. Kept by `orrery run`, so that the
// loss of no rank ends it. The requests are those of live/torch/program_store.cpp. One thread;
// seconds of any one clock.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "live/group/frames.hpp"

namespace orrery::live {

/// Answer to a request of one connection.
struct StoreAnswer {
  int connection = 0;
  Fields fields;
};

/// Store with the requests that wait for keys. A connection has at most one request at a time.
/// Requests, with their answers:
///   set KEY VALUE                {"ok"}
///   get MILLISECONDS KEY         {"value", VALUE}, once the key exists
///   wait MILLISECONDS KEY...     {"ok"}, once all keys exist
///   add KEY NUMBER               {"value", SUM}; an absent key and other texts count as 0
///   compare KEY OLD NEW          {"value", VALUE} with the value afterwards: NEW if it was OLD, or
///                                if the key was absent and OLD is empty; OLD if the key is absent
///   check KEY...                 {"value", "1"} if all keys exist, also without keys, else "0"
///   delete KEY                   {"value", "1"} if the key existed, else "0"
///   count                        {"value", NUMBER}
/// A request whose time is up has the answer {"timeout", MILLISECONDS}; any other request, or one
/// with a wrong number of words, has {"error", WHY}.
class KeyValueStore {
 public:
  /// Returns the answers that follow from a request: its own, unless it waits, and those of
  /// requests that waited for its key. A get or wait whose time is 0 waits until the next
  /// expire_requests(). Call only while the connection has no waiting request: a second one would
  /// replace it.
  std::vector<StoreAnswer> answer_request(int connection, const Fields& request, double now_s);
  /// Removes the waiting requests whose time is up at `now_s`, and returns their answers; empty if
  /// there are none.
  std::vector<StoreAnswer> expire_requests(double now_s);
  /// Drops the waiting request of a closed connection, if any.
  void forget_connection(int connection) { waiting_.erase(connection); }

 private:
  struct Waiting {
    Fields keys;
    bool wants_value = false;
    std::string milliseconds;
    double deadline_s = 0;
  };

  Fields answer_now(const Fields& request);
  bool has_all(const Fields& keys, std::size_t from) const;
  void answer_waiting(std::vector<StoreAnswer>& answers);

  std::map<std::string, std::string> values_;
  std::map<int, Waiting> waiting_;
};

}  // namespace orrery::live
