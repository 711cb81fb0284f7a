// Functions of NCCL, bound at run time: types from nccl.h, addresses from dlopen. A function that
// some versions lack is null. Loaded once and kept; immutable, thread-safe.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include <nccl.h>

namespace orrery::live::gpu {

/// Functions of NCCL, loaded at run time.
struct NcclLibrary {
  /// Loads the library `path`, for the life of the process. Throws std::runtime_error with the
  /// reason if it cannot be loaded, is too old or tells no version.
  explicit NcclLibrary(const char* path) {
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) throw std::runtime_error(std::string("no NCCL: ") + dlerror());
    load_function(library, "ncclGetVersion", get_version);
    load_function(library, "ncclGetUniqueId", unique_id);
    load_function(library, "ncclCommInitRankConfig", join);
    load_function(library, "ncclCommGetAsyncError", async_error);
    load_function(library, "ncclCommAbort", abort);
    load_function(library, "ncclCommSplit", split);
    load_function(library, "ncclAllReduce", all_reduce);
    load_function(library, "ncclSend", send);
    load_function(library, "ncclRecv", receive);
    load_function(library, "ncclGetErrorString", describe);
    load_function(library, "ncclGetLastError", last_error);
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

 private:
  template <class Function>
  static void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
  }
  template <class Function>
  static void load_function(void* library, const char* name, Function& function) {
    find(library, name, function);
    if (!function) throw std::runtime_error(std::string("this NCCL is too old: no ") + name);
  }
};

}  // namespace orrery::live::gpu
