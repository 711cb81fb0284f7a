// NCCL's functions, bound at run time: types from nccl.h, addresses from dlopen. What some versions
// lack is null. Loaded once and kept; immutable, thread-safe.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include <nccl.h>

namespace orrery::live::gpu {

struct NcclLibrary {
  /// Throws std::runtime_error with the reason.
  explicit NcclLibrary(const char* path) {
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) throw std::runtime_error(std::string("no NCCL: ") + dlerror());
    need(library, "ncclGetVersion", get_version);
    need(library, "ncclGetUniqueId", unique_id);
    need(library, "ncclCommInitRankConfig", join);
    need(library, "ncclCommGetAsyncError", async_error);
    need(library, "ncclCommAbort", abort);
    need(library, "ncclCommSplit", split);
    need(library, "ncclAllReduce", all_reduce);
    need(library, "ncclSend", send);
    need(library, "ncclRecv", receive);
    need(library, "ncclGetErrorString", describe);
    need(library, "ncclGetLastError", last_error);
    find(library, "ncclCommShrink", shrink);  // since 2.27
    find(library, "ncclCommRevoke", revoke);  // 2.28
    if (get_version(&version) != ncclSuccess) throw std::runtime_error("NCCL has no version");
  }

  int version = 0;  ///< 22809: 2.28.9
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetUniqueId) unique_id;
  decltype(&ncclCommInitRankConfig) join;
  decltype(&ncclCommGetAsyncError) async_error;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclCommSplit) split;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) receive;
  decltype(&ncclGetErrorString) describe;
  decltype(&ncclGetLastError) last_error;
  decltype(&ncclCommShrink) shrink;
  decltype(&ncclCommRevoke) revoke;

 private:
  template <class Function>
  static void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
  }
  template <class Function>
  static void need(void* library, const char* name, Function& function) {
    find(library, name, function);
    if (!function) throw std::runtime_error(std::string("this NCCL is too old: no ") + name);
  }
};

}  // namespace orrery::live::gpu
