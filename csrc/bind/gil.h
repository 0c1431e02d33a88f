// The GIL, given back for a while or taken by a thread of ours, also while the interpreter ends.
//
// Before Python 3.14 a daemon thread that asks for the GIL when the interpreter has begun to end is ended by
// pthread_exit, which unwinds its stack. nanobind's guards are noexcept: unwinding meets them, and the process aborts
// ("terminate called without an active exception"). Newer Pythons let such a thread hang, and so do we.
#pragma once

#include <Python.h>
#include <unistd.h>

namespace fleet::bind {

// Other threads of Python run as long as this lives.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {  // nothing but the end of the thread; the process ends without it
      while (true) pause();
    }
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// A thread that is in a `WithoutGil` may call Python as long as this lives. Where the interpreter ends, the stack is
// unwound up to there, so that whoever waits for the thread's work to end does not wait for ever.
class WithGil {
 public:
  WithGil() : state_(PyGILState_Ensure()) {}
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace fleet::bind
