// Conversion that keeps the name of a stand-in: `float(x)` of CPython asks a function of
// conversions.py first, unless x is a plain number or a plain text. Compiled by guard.py, without
// headers of Python: a user's machine may have none. All functions need the interpreter's lock.
#include <cstddef>
#include <cstdint>

extern "C" {

struct Object;  // PyObject, whose second word is its type
using Call = Object* (*)(Object* type, Object* const* args, std::size_t count, Object* names);

extern char PyFloat_Type[], PyLong_Type[], PyUnicode_Type[], _Py_NotImplementedStruct[];
Object* PyObject_CallFunctionObjArgs(Object* callable, ...);
void Py_IncRef(Object* object);
void Py_DecRef(Object* object);
}

namespace {

Object* asked = nullptr;
Call original = nullptr;

bool is_plain(const Object* object) {
  const void* const type = reinterpret_cast<const void* const*>(object)[1];
  return type == PyFloat_Type || type == PyLong_Type || type == PyUnicode_Type;
}

/// Returns the answer of the function that is asked first, or else that of the original call.
Object* convert(Object* type, Object* const* args, std::size_t flags, Object* names) {
  constexpr std::size_t kOffset = std::size_t{1} << (8 * sizeof(std::size_t) - 1);
  if ((flags & ~kOffset) == 1 && names == nullptr && !is_plain(args[0])) {
    Object* const answer = PyObject_CallFunctionObjArgs(asked, args[0], nullptr);
    if (answer != reinterpret_cast<Object*>(_Py_NotImplementedStruct)) return answer;
    Py_DecRef(answer);
  }
  return original(type, args, flags, names);
}

}  // namespace

/// Replaces the call of `float`, once, if the type has such a call. `place`: bytes from the begin
/// of a type object to its pointer tp_vectorcall.
extern "C" void replace_float(std::int64_t place, Object* function) {
  Call& slot = *reinterpret_cast<Call*>(PyFloat_Type + place);
  if (slot == nullptr || original != nullptr) return;
  Py_IncRef(function);
  asked = function;
  original = slot;
  slot = convert;
}
