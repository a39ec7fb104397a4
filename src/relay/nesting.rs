//! Which containers are open: one bit each, so that depth costs neither stack nor memory.

/// A container of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Object,
    Array,
}

/// The open containers, innermost last.
#[derive(Clone, Debug, Default)]
pub(super) struct Nesting {
    depth: usize,
    /// The innermost up to 64; the lowest bit is the innermost.
    recent: u64,
    /// Those further out, 64 in each word. Empty for nearly every frame.
    outer: Vec<u64>,
}

impl Nesting {
    pub(super) const fn depth(&self) -> usize {
        self.depth
    }

    pub(super) fn open(&mut self, container: Container) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.recent);
        }
        self.recent = (self.recent << 1) | u64::from(container == Container::Object);
        self.depth += 1;
    }

    /// Closes the innermost container if it is of this kind.
    pub(super) fn close(&mut self, container: Container) -> bool {
        if self.innermost() != Some(container) {
            return false;
        }
        self.depth -= 1;
        self.recent >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.recent = self.outer.pop().unwrap_or_default();
        }
        true
    }

    pub(super) const fn innermost(&self) -> Option<Container> {
        match (self.depth, self.recent & 1) {
            (0, _) => None,
            (_, 1) => Some(Container::Object),
            _ => Some(Container::Array),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_close_in_the_reverse_order_at_any_depth() {
        let kind = |i: usize| match (i * i / 3) % 2 {
            0 => Container::Object,
            _ => Container::Array,
        };
        let mut nesting = Nesting::default();
        for i in 0..300 {
            nesting.open(kind(i));
        }
        assert_eq!(nesting.depth(), 300);
        for i in (0..300).rev() {
            let other = match kind(i) {
                Container::Object => Container::Array,
                Container::Array => Container::Object,
            };
            assert!(!nesting.close(other), "{i}");
            assert!(nesting.close(kind(i)), "{i}");
        }
        assert_eq!(nesting.innermost(), None);
    }
}
