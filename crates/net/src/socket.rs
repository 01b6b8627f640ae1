//! A borrowed socket under one name on every system: a descriptor, or a handle of Windows.

#[cfg(unix)]
pub use std::os::fd::{AsFd as AsSocket, BorrowedFd as BorrowedSocket};
#[cfg(windows)]
pub use std::os::windows::io::{AsSocket, BorrowedSocket};

/// Borrows the socket behind a value.
#[cfg(unix)]
pub fn borrow(socket: &(impl AsSocket + ?Sized)) -> BorrowedSocket<'_> {
    socket.as_fd()
}

/// Borrows the socket behind a value.
#[cfg(windows)]
pub fn borrow(socket: &(impl AsSocket + ?Sized)) -> BorrowedSocket<'_> {
    socket.as_socket()
}

/// Implements [`AsSocket`] for a type by one of its fields.
#[cfg(unix)]
#[macro_export]
macro_rules! as_socket {
    ($name:ty, $field:tt) => {
        impl std::os::fd::AsFd for $name {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                std::os::fd::AsFd::as_fd(&self.$field)
            }
        }
    };
}

/// Implements [`AsSocket`] for a type by one of its fields.
#[cfg(windows)]
#[macro_export]
macro_rules! as_socket {
    ($name:ty, $field:tt) => {
        impl std::os::windows::io::AsSocket for $name {
            fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
                std::os::windows::io::AsSocket::as_socket(&self.$field)
            }
        }
    };
}
