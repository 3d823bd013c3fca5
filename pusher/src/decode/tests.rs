use bytestring::ByteString;

use super::*;

fn origin() -> Arc<Origin> {
    Origin::new(&Topic::new("t").unwrap(), None, "c", Partition(3))
}

fn record(value: Option<&'static [u8]>, headers: &[(&'static str, &'static str)]) -> SourcedRecord {
    let headers =
        headers.iter().map(|(name, value)| Header { name: ByteString::from_static(name), value: Bytes::from_static(value.as_bytes()) });
    let payload = Payload { key: Some(Bytes::from_static(b"k")), value: value.map(Bytes::from_static), headers: headers.collect() };
    SourcedRecord { origin: origin(), record: Record { offset: common::ids::Offset(7), timestamp: 1_000, payload } }
}

fn decode_with(decoder: &RecordDecoder, types: &EventTypes, record: SourcedRecord) -> Event<Delivered> {
    match decoder.decode(record, types) {
        Decoded::Event(event) => event,
        Decoded::Skip { .. } => panic!("nothing is skipped"),
    }
}

fn decode(serializer: Serializer, record: SourcedRecord) -> (Event<Delivered>, u64) {
    let decoder = RecordDecoder::new(serializer, Counter::default());
    let event = decode_with(&decoder, &EventTypes::default(), record);
    (event, decoder.pushed_raw.get())
}

const ENVELOPE: &[u8] = br#"{"Topic":"t","PartitionKey":"k","TimeStamp":5,"Data":"n=1","LogId":"l","ContentType":"x/y"}"#;

#[test]
fn raw_carries_the_value_and_its_metadata_untouched() {
    let (event, pushed_raw) = decode(Serializer::Raw, record(Some(ENVELOPE), &[("content-type", "a/b"), ("x-kmq-logid", "id")]));
    assert_eq!((event.offset, event.time_ms, event.key.as_deref()), (Offset(7), 1_000, Some(&b"k"[..])));
    assert_eq!(event.payload.body.as_deref(), Some(ENVELOPE));
    assert_eq!(event.payload.content_type.as_deref(), Some(&b"a/b"[..]));
    assert_eq!(event.payload.logid.as_deref(), Some(&b"id"[..]));
    assert_eq!(pushed_raw, 0);
    assert!(event.size_bytes > ENVELOPE.len() + 1);
}

#[test]
fn json_pushes_the_data_of_the_originals_envelope() {
    let (event, pushed_raw) = decode(Serializer::Json, record(Some(ENVELOPE), &[("traceparent", "00-1-2-01")]));
    assert_eq!(event.payload.body.as_deref(), Some(&b"n=1"[..]));
    assert_eq!(event.payload.content_type.as_deref(), Some(&b"x/y"[..]));
    assert_eq!(event.payload.logid.as_deref(), Some(&b"l"[..]));
    assert_eq!(event.time_ms, 5);
    assert_eq!(event.payload.stored.value.as_deref(), Some(ENVELOPE), "a dead letter keeps what the queue holds");
    assert_eq!(pushed_raw, 0);
}

#[test]
fn json_pushes_a_record_with_our_headers_as_it_is() {
    for name in ["mqgate-id", "x-kmq-logid", "content-type", "ce_type"] {
        let (event, pushed_raw) = decode(Serializer::Json, record(Some(ENVELOPE), &[(name, "v")]));
        assert_eq!(event.payload.body.as_deref(), Some(ENVELOPE), "{name}");
        assert_eq!(pushed_raw, 0);
    }
}

#[test]
fn json_pushes_what_is_neither_raw_and_counts_it() {
    let (event, pushed_raw) = decode(Serializer::Json, record(Some(b"n=1"), &[]));
    assert_eq!(event.payload.body.as_deref(), Some(&b"n=1"[..]));
    assert_eq!(event.payload.content_type, None);
    assert_eq!(pushed_raw, 1);
}

#[test]
fn a_tombstone_stays_one_and_is_not_an_empty_value() {
    for serializer in [Serializer::Raw, Serializer::Json] {
        let (event, pushed_raw) = decode(serializer, record(None, &[]));
        assert_eq!(event.payload.body, None);
        assert_eq!(pushed_raw, 0);
    }
    assert_eq!(decode(Serializer::Raw, record(Some(b""), &[])).0.payload.body, Some(Bytes::new()));
}

#[test]
fn the_event_type_is_the_ce_type_if_it_is_listed() {
    let types = EventTypes::new(vec![("push".into(), None), ("issues".into(), Some(2))]);
    let decoder = RecordDecoder::new(Serializer::Raw, Counter::default());
    let of = |headers| decode_with(&decoder, &types, record(Some(b"x"), headers)).event_type;
    assert_eq!(of(&[("ce_type", "issues")]), EventType(1));
    assert_eq!(of(&[("ce_type", "fork")]), EventType::OTHER);
    assert_eq!(of(&[]), EventType::OTHER);
}

#[test]
fn topics_of_one_name_have_different_identities() {
    let topic = Topic::new("t").unwrap();
    let of = |id, cluster| Origin::new(&topic, id, cluster, Partition(0)).identity;
    let id = |number| Some(TopicId(uuid::Uuid::from_u128(number)));
    assert_ne!(of(id(1), ""), of(id(2), ""));
    assert_ne!(of(None, "a"), of(None, "b"));
    assert_eq!(of(None, "a"), of(None, "a"));
}
