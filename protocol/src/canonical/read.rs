//! Reads the encoding of section 1 of `FORMAT.md`.
//!
//! Written here and not left to bincode, which writes it, because of what strangers may claim: a list is given room for as
//! many items as bytes are left and no more, whatever its length says. (Through serde, bincode gives room for up to a
//! mebibyte first, so a message of ten bytes costs that much.) What the one writes and the other reads is compared by every
//! vector and every test that reads back.

use serde::de::{self, DeserializeSeed, IntoDeserializer, Visitor};

/// Why a value does not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReadError {
    /// The bytes end inside a value.
    #[error("the bytes end inside a value")]
    Ends,
    /// A byte that cannot begin what should stand here.
    #[error("{found:#04x} is not how {what} begins")]
    Tag {
        /// The byte.
        found: u8,
        /// What should stand here.
        what: &'static str,
    },
    /// A text that is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// The type has something that the encoding has not: a map, a float, a number of 128 bits.
    #[error("{0} have no encoding")]
    Kind(&'static str),
    /// What the type itself says.
    #[error("{0}")]
    Value(String),
}

impl de::Error for ReadError {
    fn custom<T: std::fmt::Display>(words: T) -> Self {
        Self::Value(words.to_string())
    }
}

/// Reads values from the front of what is left.
pub(super) struct Reader<'de> {
    left: &'de [u8],
}

impl<'de> Reader<'de> {
    pub(super) fn new(bytes: &'de [u8]) -> Self {
        Self { left: bytes }
    }

    /// Bytes nothing has read yet.
    pub(super) fn left(&self) -> usize {
        self.left.len()
    }

    fn take(&mut self, len: usize) -> Result<&'de [u8], ReadError> {
        let (taken, left) = self.left.split_at_checked(len).ok_or(ReadError::Ends)?;
        self.left = left;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, ReadError> {
        let (first, left) = self.left.split_first().ok_or(ReadError::Ends)?;
        self.left = left;
        Ok(*first)
    }

    /// A varint of at most `bytes` bytes: 2, 4 or 8. That it is as short as may be is for who encodes it again to see.
    fn varint(&mut self, bytes: usize) -> Result<u64, ReadError> {
        let len = match self.byte()? {
            small @ 0..=250 => return Ok(u64::from(small)),
            251 => 2,
            252 if bytes >= 4 => 4,
            253 if bytes >= 8 => 8,
            found => return Err(ReadError::Tag { found, what: "a number of this size" }),
        };
        Ok(self.take(len)?.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, bytes: usize) -> Result<i64, ReadError> {
        let value = self.varint(bytes)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn len(&mut self) -> Result<usize, ReadError> {
        // More than there are bytes on any machine ends like any other list that is too long.
        self.varint(8).map(|len| usize::try_from(len).unwrap_or(usize::MAX))
    }

    fn text(&mut self) -> Result<&'de str, ReadError> {
        let len = self.len()?;
        std::str::from_utf8(self.take(len)?).map_err(|_| ReadError::Text)
    }
}

/// Items of a list, a tuple or the fields of a struct, of which so many are still to come.
struct Items<'a, 'de> {
    reader: &'a mut Reader<'de>,
    to_come: usize,
}

impl<'de> de::SeqAccess<'de> for Items<'_, 'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        let Some(after) = self.to_come.checked_sub(1) else { return Ok(None) };
        self.to_come = after;
        seed.deserialize(&mut *self.reader).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        // Each takes a byte at least: messages have no items without any.
        Some(self.to_come.min(self.reader.left()))
    }
}

impl<'de> de::EnumAccess<'de> for &mut Reader<'de> {
    type Error = ReadError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), ReadError> {
        let number = self.varint(4)? as u32;
        let number: de::value::U32Deserializer<ReadError> = number.into_deserializer();
        Ok((seed.deserialize(number)?, self))
    }
}

impl<'de> de::VariantAccess<'de> for &mut Reader<'de> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ReadError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_seq(Items { reader: self, to_come: len })
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_seq(Items { reader: self, to_come: fields.len() })
    }
}

macro_rules! unsupported {
    ($($method:ident: $what:literal)*) => {$(
        fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, ReadError> {
            Err(ReadError::Kind($what))
        }
    )*};
}

impl<'de> de::Deserializer<'de> for &mut Reader<'de> {
    type Error = ReadError;

    unsupported! {
        deserialize_any: "values of a type nobody says"
        deserialize_i128: "numbers of 128 bits"
        deserialize_u128: "numbers of 128 bits"
        deserialize_f32: "floats"
        deserialize_f64: "floats"
        deserialize_char: "characters"
        deserialize_map: "maps"
        deserialize_identifier: "names"
        deserialize_ignored_any: "values of a type nobody says"
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.byte()? {
            0 => visitor.visit_bool(false),
            1 => visitor.visit_bool(true),
            found => Err(ReadError::Tag { found, what: "yes or no" }),
        }
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_u8(self.byte()?)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_u64(self.varint(2)?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_u64(self.varint(4)?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_u64(self.varint(8)?)
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_i8(self.byte()? as i8)
    }

    fn deserialize_i16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_i64(self.signed(2)?)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_i64(self.signed(4)?)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_i64(self.signed(8)?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_borrowed_str(self.text()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let len = self.len()?;
        visitor.visit_borrowed_bytes(self.take(len)?)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.byte()? {
            0 => visitor.visit_none(),
            1 => visitor.visit_some(self),
            found => Err(ReadError::Tag { found, what: "an option" }),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let to_come = self.len()?;
        visitor.visit_seq(Items { reader: self, to_come })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_seq(Items { reader: self, to_come: len })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_enum(self)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}
