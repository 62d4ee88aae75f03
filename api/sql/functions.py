"""The engine's functions, one by one: which are allowed, and which are known and refused.

A frozen list: an engine of tomorrow has more, and sorts them in categories that say nothing about what they reach
(`inIgnoreSet`, which reads a table, is a "Comparison"). A name that is in none of these is refused; a test names what
the engine has beyond them, so that somebody looks at each. All in lower case: the engine has no two functions that
differ in case alone and in what they do. Last read through: 26.9.2.1.
"""

from __future__ import annotations

# ruff: noqa: SIM905
AGGREGATES = frozenset(
    """
    analysisofvariance anova any any_respect_nulls any_value any_value_respect_nulls anyheavy anylast
    anylast_respect_nulls anylastrespectnulls anyrespectnulls anyvaluerespectnulls approx_top_count approx_top_k
    approx_top_sum argandmax argandmin argmax argmin array_agg array_concat_agg avg avgweighted bit_and bit_or bit_xor
    boundingratio categoricalinformationvalue contingency corr corrmatrix corrstable count covar_pop covar_samp
    covarpop covarpopmatrix covarpopstable covarsamp covarsampmatrix covarsampstable cramersv cramersvbiascorrected
    cume_dist deltasum deltasumtimestamp dense_rank denserank distinctdynamictypes distinctjsonpaths
    distinctjsonpathsandtypes entropy exponentialmovingaverage exponentialtimedecayedavg exponentialtimedecayedcount
    exponentialtimedecayedmax exponentialtimedecayedsum first_value first_value_respect_nulls firstvaluerespectnulls
    gini group_concat grouparray grouparrayinsertat grouparrayintersect grouparraylast grouparraymovingavg
    grouparraymovingsum grouparraysample grouparraysorted groupbitand groupbitmap groupbitmapand groupbitmapor
    groupbitmapxor groupbitor groupbitxor groupconcat groupnumericindexedvector groupuniqarray hierarchicalkmeans
    histogram intervallengthsum kolmogorovsmirnovtest kurtpop kurtsamp lag laginframe largesttrianglethreebuckets
    last_value last_value_respect_nulls lastvaluerespectnulls lead leadinframe lttb mannwhitneyutest max max_by
    maxintersections maxintersectionsposition maxmappedarrays meanztest median medianbfloat16 medianbfloat16weighted
    mediandd mediandeterministic medianexact medianexacthigh medianexactlow medianexactweighted
    medianexactweightedinterpolated mediangk medianinterpolatedweighted mediantdigest mediantdigestweighted
    mediantiming mediantimingweighted mergedjsonpatch min min_by minmappedarrays mvtencode nonnegativederivative
    nothing nothingnull nothinguint64 nth_value ntile percent_rank percentrank quantile quantilebfloat16
    quantilebfloat16weighted quantiledd quantiledeterministic quantileexact quantileexactexclusive quantileexacthigh
    quantileexactinclusive quantileexactlow quantileexactweighted quantileexactweightedinterpolated quantilegk
    quantileinterpolatedweighted quantileprometheushistogram quantiles quantilesbfloat16 quantilesbfloat16weighted
    quantilesdd quantilesdeterministic quantilesexact quantilesexactexclusive quantilesexacthigh
    quantilesexactinclusive quantilesexactlow quantilesexactweighted quantilesexactweightedinterpolated quantilesgk
    quantilesinterpolatedweighted quantilesprometheushistogram quantilestdigest quantilestdigestweighted
    quantilestiming quantilestimingweighted quantiletdigest quantiletdigestweighted quantiletiming
    quantiletimingweighted rank rankcorr regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
    regr_sxy regr_syy retention row_number sequencecount sequencematch sequencematchevents sequencenextnode
    simplelinearregression singlevalueornull skewpop skewsamp sparkbar st_asmvt std stddev stddev_pop stddev_samp
    stddevpop stddevpopstable stddevsamp stddevsampstable stochasticlinearregression stochasticlogisticregression
    string_agg studentttest studentttestonesample sum sumcount sumkahan summapfiltered summapfilteredwithoverflow
    summappedarrays summapwithoverflow sumwithoverflow theilsu timeseriesavgtogrid timeseriesbottomkmasks
    timeserieschangestogrid timeseriescounttogrid timeseriesdeltatogrid timeseriesderivtogrid timeseriesgrouparray
    timeseriesincreasetogrid timeseriesinstantdeltatogrid timeseriesinstantratetogrid timeserieslasttogrid
    timeserieslasttwosamples timeserieslimitkmasks timeseriesmaxtogrid timeseriesmintogrid
    timeseriespredictlineartogrid timeseriesratetogrid timeseriesresampletogridwithstaleness timeseriesresetstogrid
    timeseriessumtogrid timeseriestimestampofmaxtogrid timeseriestimestampofmintogrid timeseriestopkmasks topk
    topkweighted uniq uniqcombined uniqcombined64 uniqexact uniqhll12 uniqupto var_pop var_samp varpop varpopstable
    varsamp varsampstable welchttest windowfunnel
    """.split()
)
"""Aggregate and window functions; combinators may follow."""
ORDINARY = frozenset(
    """
    abs accuratecast accuratecastordefault accuratecastornull acos acosh adddate adddays addhours addinterval
    addmicroseconds addmilliseconds addminutes addmonths addnanoseconds addquarters addseconds addtupleofintervals
    addweeks addyears age alphatokens and appendtrailingcharifabsent areacartesian areaspherical array array_remove
    array_to_string arrayall arrayauc arrayaucpr arrayautocorrelation arrayavg arraybottomk arraycompact arrayconcat
    arraycount arraycumsum arraycumsumnonnegative arraydifference arraydistinct arraydotproduct arrayelement
    arrayelementornull arrayenumerate arrayenumeratedense arrayenumeratedenseranked arrayenumerateuniq
    arrayenumerateuniqranked arrayexcept arrayexists arrayfill arrayfilter arrayfirst arrayfirstindex arrayfirstornull
    arrayflatten arrayflattenedlength arrayfold arrayintersect arrayjaccardindex arrayjoin arraylast arraylastindex
    arraylastornull arraylevenshteindistance arraylevenshteindistanceweighted arraymap arraymax arraymin
    arraynormalizedgini arraypartialreversesort arraypartialshuffle arraypartialsort arraypopback arraypopfront
    arrayprauc arrayproduct arraypushback arraypushfront arrayrandomsample arrayreduce arrayreduceinranges arrayremove
    arrayresize arrayreverse arrayreversefill arrayreversesort arrayreversesplit arrayrocauc arrayrotateleft
    arrayrotateright arrayshiftleft arrayshiftright arrayshingles arrayshuffle arraysimilarity arrayslice arraysort
    arraysplit arraystringconcat arraysum arraysymmetricdifference arraytopk arraytranspose arrayunion arrayuniq
    arraywithconstant arrayzip arrayzipunaligned ascii asin asinh assumenotnull atan atan2 atanh avg2 bar base32decode
    base32encode base58decode base58encode base64decode base64encode base64urldecode base64urlencode basename bin
    bitand bitcount bithammingdistance bitmapand bitmapandcardinality bitmapandnot bitmapandnotcardinality bitmapbuild
    bitmapcardinality bitmapcontains bitmaphasall bitmaphasany bitmapmax bitmapmin bitmapor bitmaporcardinality
    bitmapsubsetinrange bitmapsubsetlimit bitmaptoarray bitmaptransform bitmapxor bitmapxorcardinality bitmasktoarray
    bitmasktolist bitnot bitor bitpositionstoarray bitrotateleft bitrotateright bitshiftleft bitshiftright bitslice
    bittest bittestall bittestany bitxor blocknumber blockserializedsize blocksize bytehammingdistance bytesize
    byteslice byteswap cardinality casefoldutf8 casewithexpr casewithexpression casewithoutexpr casewithoutexpression
    cast cbrt ceil ceiling changeday changehour changeminute changemonth changesecond changeyear char char_length
    character_length cityhash64 clamp coalesce coloroklabtosrgb coloroklchtosrgb colorsrgbtooklab colorsrgbtooklch
    comparesubstrings concat concat_ws concatassumeinjective concatwithseparator concatwithseparatorassumeinjective
    conv convertcharset cos cosh cosinedistance cosinedistancetransposed cosinedistancetransposedquantized countdigits
    countequal countmatches countmatchescaseinsensitive countsubstrings countsubstringscaseinsensitive
    countsubstringscaseinsensitiveutf8 crc32 crc32ieee crc64 curdate current_database current_date current_timestamp
    current_user currentdatabase currentuser cutfragment cutipv6 cutquerystring cutquerystringandfragment
    cuttofirstsignificantsubdomain cuttofirstsignificantsubdomaincustom cuttofirstsignificantsubdomaincustomrfc
    cuttofirstsignificantsubdomaincustomwithwww cuttofirstsignificantsubdomaincustomwithwwwrfc
    cuttofirstsignificantsubdomainrfc cuttofirstsignificantsubdomainwithwww cuttofirstsignificantsubdomainwithwwwrfc
    cuturlparameter cutwww dameraulevenshteindistance database date date_add date_bin date_diff date_format date_sub
    date_trunc dateadd datediff datename datesub datetime64tosnowflakeid datetimetosnowflakeid datetimetouuidv7
    datetrunc day dayofmonth dayofweek dayofyear decodehtmlcomponent decodeurlcomponent decodeurlformcomponent
    decodexmlcomponent defaultvalueofargumenttype defaultvalueoftypename degrees dequantizeint8tobfloat16 digits
    displayname distancecosine distancecosinetransposed distancel1 distancel2 distancel2squared distancel2transposed
    distancelinf distancelp divide dividedecimal divideornull domain domainrfc domainwithoutwww domainwithoutwwwrfc
    dotproduct dotproducttransposed dotproducttransposedquantized dumpcolumnstructure dynamicelement dynamictype e
    editdistance editdistanceutf8 empty emptyarraydate emptyarraydatetime emptyarrayfloat32 emptyarrayfloat64
    emptyarrayint16 emptyarrayint32 emptyarrayint64 emptyarrayint8 emptyarraystring emptyarraytosingle
    emptyarrayuint16 emptyarrayuint32 emptyarrayuint64 emptyarrayuint8 encodeurlcomponent encodeurlformcomponent
    encodexmlcomponent endswith endswithcaseinsensitive endswithcaseinsensitiveutf8 endswithutf8 equals erf erfc
    errorcodetoname exists exp exp10 exp2 extract extractall extractallgroups extractallgroupshorizontal
    extractallgroupsvertical extractgroups extractkeyvaluepairs extractkeyvaluepairswithescaping extracttextfromhtml
    extracturlparameter extracturlparameternames extracturlparameters factorial farmfingerprint64 farmhash64
    finalizeaggregation financialinternalrateofreturn financialinternalrateofreturnextended financialnetpresentvalue
    financialnetpresentvalueextended firstline firstnondefault firstsignificantsubdomain
    firstsignificantsubdomaincustom firstsignificantsubdomaincustomrfc firstsignificantsubdomainrfc flatten
    flattentuple flipcoordinates floor format format_bytes formatdatetime formatdatetimeinjodasyntax
    formatreadabledecimalsize formatreadablequantity formatreadablesize formatreadabletimedelta fragment from_base64
    from_days from_unixtime from_utc_timestamp fromdayssinceyearzero fromdayssinceyearzero32 frommodifiedjulianday
    frommodifiedjuliandayornull fromunixtimestamp fromunixtimestamp64micro fromunixtimestamp64milli
    fromunixtimestamp64nano fromunixtimestamp64second fromunixtimestampinjodasyntax fromutctimestamp fuzzbits
    gccmurmurhash gcd generatesnowflakeid generateuuidv4 generateuuidv7 geodistance geohashdecode geohashencode
    geohashesinbox geometryintersectcartesian geometryintersectspherical geotoh3 geotomgrs geotoutm getsizeofenumtype
    getsubcolumn globalin globalnotin globalnotnullin globalnullin greatcircleangle greatcircledistance greater
    greaterorequals greatest grouping h3cellaream2 h3cellarearads2 h3distance h3edgeangle h3edgelengthkm h3edgelengthm
    h3exactedgelengthkm h3exactedgelengthm h3exactedgelengthrads h3getbasecell
    h3getdestinationindexfromunidirectionaledge h3getfaces h3getindexesfromunidirectionaledge
    h3getoriginindexfromunidirectionaledge h3getpentagonindexes h3getres0indexes h3getresolution
    h3getunidirectionaledge h3getunidirectionaledgeboundary h3getunidirectionaledgesfromhexagon h3hexareakm2
    h3hexaream2 h3hexring h3indexesareneighbors h3ispentagon h3isresclassiii h3isvalid h3kring h3line h3numhexagons
    h3pointdistkm h3pointdistm h3pointdistrads h3polygontocells h3polygontocellswithcontainment h3tocenterchild
    h3tochildren h3togeo h3togeoboundary h3toparent h3tostring h3unidirectionaledgeisvalid halfmd5 has hasall
    hasalltoken hasalltokens hasany hasanytoken hasanytokens hasphrase hassubsequence hassubsequencecaseinsensitive
    hassubsequencecaseinsensitiveutf8 hassubsequenceutf8 hassubstr hastoken hastokencaseinsensitive
    hastokencaseinsensitiveornull hastokenornull hex highlight hilbertdecode hilbertencode hivehash hmac hop hopend
    hopstart hostname hour hypot iceberghash identity if ifnotfinite ifnull ignore ilike in indexhint indexof
    indexofassumesorted inet6_aton inet6_ntoa inet_aton inet_ntoa initcap initcaputf8 initializeaggregation instr
    intdiv intdivornull intdivorzero intexp10 intexp2 inthash32 inthash64 ipv4cidrtorange ipv4numtostring
    ipv4numtostringclassc ipv4stringtonum ipv4stringtonumordefault ipv4stringtonumornull ipv4toipv6 ipv6cidrtorange
    ipv6numtostring ipv6stringtonum ipv6stringtonumordefault ipv6stringtonumornull isascii isconstant
    isdecimaloverflow isdistinctfrom isdynamicelementinshareddata isfinite isinfinite isipaddressinrange isipv4string
    isipv6string isnan isnotdistinctfrom isnotnull isnull isnullable isprime isprobableprime isvalidascii isvalidjson
    isvalidutf8 iszeroornull jarosimilarity jarowinklersimilarity javahash javahashutf16le json_array_length
    json_exists json_query json_value jsonallpaths jsonallpathswithtypes jsonallvalues jsonarraylength
    jsondynamicpaths jsondynamicpathswithtypes jsonextract jsonextractarrayraw jsonextractarrayrawcaseinsensitive
    jsonextractbool jsonextractboolcaseinsensitive jsonextractcaseinsensitive jsonextractfloat
    jsonextractfloatcaseinsensitive jsonextractint jsonextractintcaseinsensitive jsonextractkeys
    jsonextractkeysandvalues jsonextractkeysandvaluescaseinsensitive jsonextractkeysandvaluesraw
    jsonextractkeysandvaluesrawcaseinsensitive jsonextractkeyscaseinsensitive jsonextractraw
    jsonextractrawcaseinsensitive jsonextractstring jsonextractstringcaseinsensitive jsonextractuint
    jsonextractuintcaseinsensitive jsonhas jsonkey jsonlength jsonmergepatch jsonshareddatapaths
    jsonshareddatapathswithtypes jsontype jumpconsistenthash kafkamurmurhash keccak256 kostikconsistenthash kqlbin
    kqlbinat kqldatetimebinat kqldivide kqlmultiply kqlrangecount kqltotimespan l1distance l1norm l1normalize
    l2distance l2distancetransposed l2distancetransposedquantized l2norm l2normalize l2squareddistance l2squarednorm
    lambda last_day lcase lcm least left leftpad leftpadutf8 leftutf8 length lengthutf8 less lessorequals
    levenshteindistance levenshteindistanceutf8 lgamma like linfdistance linfnorm linfnormalize ln localtime
    localtimestamp locate log log10 log1p log2 lowcardinalityindices lowcardinalitykeys lower lowerutf8 lpad
    lpdistance lpnorm lpnormalize ltrim macnumtostring macstringtonum macstringtooui makedate makedate32 makedatetime
    makedatetime64 map map_from_arrays mapadd mapall mapapply mapconcat mapcontains mapcontainskey mapcontainskeylike
    mapcontainsvalue mapcontainsvaluelike mapexists mapextractkeylike mapextractvaluelike mapfilter mapfromarrays
    mapfromstring mapkeys mappartialreversesort mappartialsort mappopulateseries mapreversesort mapsort mapsubtract
    mapupdate mapvalues match matchcaseinsensitive matchphrase materialize max2 md4 md5 metrohash64 mgrstogeo
    microsecond mid midpoint millisecond min2 minsamplesizecontinous minsamplesizecontinuous minsamplesizeconversion
    minus minute mismatches mod modornull modulo modulolegacy moduloornull moduloorzero month monthname mortondecode
    mortonencode multifuzzymatchallindices multifuzzymatchany multifuzzymatchanyindex multiif multimatchallindices
    multimatchany multimatchanyindex multiply multiplydecimal multisearchallpositions
    multisearchallpositionscaseinsensitive multisearchallpositionscaseinsensitiveutf8 multisearchallpositionsutf8
    multisearchany multisearchanycaseinsensitive multisearchanycaseinsensitiveutf8 multisearchanyutf8
    multisearchfirstindex multisearchfirstindexcaseinsensitive multisearchfirstindexcaseinsensitiveutf8
    multisearchfirstindexutf8 multisearchfirstposition multisearchfirstpositioncaseinsensitive
    multisearchfirstpositioncaseinsensitiveutf8 multisearchfirstpositionutf8 murmurhash2_32 murmurhash2_64
    murmurhash3_128 murmurhash3_32 murmurhash3_64 mvtboundingbox mvtboundingboxmercator mvtencodegeom nanosecond
    natural_sort_key naturalsortkey negate neighbor netloc ngramdistance ngramdistancecaseinsensitive
    ngramdistancecaseinsensitiveutf8 ngramdistanceutf8 ngramminhash ngramminhasharg ngramminhashargcaseinsensitive
    ngramminhashargcaseinsensitiveutf8 ngramminhashargutf8 ngramminhashcaseinsensitive ngramminhashcaseinsensitiveutf8
    ngramminhashutf8 ngrams ngramsearch ngramsearchcaseinsensitive ngramsearchcaseinsensitiveutf8 ngramsearchutf8
    ngramsimhash ngramsimhashcaseinsensitive ngramsimhashcaseinsensitiveutf8 ngramsimhashutf8 normalizel1 normalizel2
    normalizelinf normalizelp normalizeutf8nfc normalizeutf8nfd normalizeutf8nfkc normalizeutf8nfkccasefold
    normalizeutf8nfkd norml1 norml2 norml2squared normlinf normlp not notempty notequals nothas notilike notin notlike
    notmatch notmatchcaseinsensitive notnullin now now64 nowinblock nowinblock64 nullif nullin
    numericindexedvectorallvaluesum numericindexedvectorbuild numericindexedvectorcardinality
    numericindexedvectorgetvalue numericindexedvectorpointwiseadd numericindexedvectorpointwisedivide
    numericindexedvectorpointwiseequal numericindexedvectorpointwisegreater numericindexedvectorpointwisegreaterequal
    numericindexedvectorpointwiseless numericindexedvectorpointwiselessequal numericindexedvectorpointwisemultiply
    numericindexedvectorpointwisenotequal numericindexedvectorpointwisesubtract numericindexedvectorshortdebugstring
    numericindexedvectortomap octet_length or overlay overlayutf8 parsedatetime parsedatetime32besteffort
    parsedatetime32besteffortornull parsedatetime32besteffortorzero parsedatetime64 parsedatetime64besteffort
    parsedatetime64besteffortornull parsedatetime64besteffortorzero parsedatetime64besteffortus
    parsedatetime64besteffortusornull parsedatetime64besteffortusorzero parsedatetime64injodasyntax
    parsedatetime64injodasyntaxornull parsedatetime64injodasyntaxorzero parsedatetime64ornull parsedatetime64orzero
    parsedatetimebesteffort parsedatetimebesteffortornull parsedatetimebesteffortorzero parsedatetimebesteffortus
    parsedatetimebesteffortusornull parsedatetimebesteffortusorzero parsedatetimeinjodasyntax
    parsedatetimeinjodasyntaxornull parsedatetimeinjodasyntaxorzero parsedatetimeornull parsedatetimeorzero
    parseiso8601duration parsereadablesize parsereadablesizeornull parsereadablesizeorzero parsetimedelta path
    pathfull perimetercartesian perimeterspherical pi plus pmod pmodornull pointinellipses pointinpolygon
    polygonareacartesian polygonareaspherical polygonconvexhullcartesian polygonperimetercartesian
    polygonperimeterspherical polygonsdistancecartesian polygonsdistancespherical polygonsequalscartesian
    polygonsintersectcartesian polygonsintersectioncartesian polygonsintersectionspherical polygonsintersectspherical
    polygonssymdifferencecartesian polygonssymdifferencespherical polygonsunioncartesian polygonsunionspherical
    polygonswithincartesian polygonswithinspherical port portrfc position positioncaseinsensitive
    positioncaseinsensitiveutf8 positionutf8 positive_modulo positive_modulo_or_null positivemodulo
    positivemoduloornull pow power prettyprintjson printf proportionsztest protocol quantizebfloat16toint8 quarter
    query_id queryid querystring querystringandfragment radians rand rand32 rand64 randbernoulli randbinomial
    randcanonical randchisquared randconstant randexponential randfisherf randlognormal randnegativebinomial
    randnormal randomfixedstring randomhadamardtransform randomprintableascii randomstring randomstringutf8
    randpoisson randstudentt randuniform range readwkb readwkblinestring readwkbmultilinestring readwkbmultipoint
    readwkbmultipolygon readwkbpoint readwkbpolygon readwkt readwktlinestring readwktmultilinestring readwktmultipoint
    readwktmultipolygon readwktpoint readwktpolygon readwktring regexp_extract regexp_instr regexp_matches
    regexp_replace regexp_substr regexpextract regexpinstr regexpposition regexpquotemeta reinterpret
    reinterpretasdate reinterpretasdatetime reinterpretasfixedstring reinterpretasfloat32 reinterpretasfloat64
    reinterpretasint128 reinterpretasint16 reinterpretasint256 reinterpretasint32 reinterpretasint64 reinterpretasint8
    reinterpretasstring reinterpretasuint128 reinterpretasuint16 reinterpretasuint256 reinterpretasuint32
    reinterpretasuint64 reinterpretasuint8 reinterpretasuuid removeaccentsutf8 removediacriticsutf8 repeat replace
    replaceall replaceone replaceregexpall replaceregexpone replicate reverse reversebyseparator reverseutf8 revision
    right rightpad rightpadutf8 rightutf8 ripemd160 round roundage roundbankers rounddown roundduration roundtoexp2
    rownumberinallblocks rownumberinblock rpad rtrim runningaccumulate runningconcurrency runningdifference
    runningdifferencestartingwithfirstvalue scalarproduct scalarproducttransposed schema second seriesdecomposestl
    seriesoutliersdetecttukey servertimezone session_user sha1 sha224 sha256 sha384 sha512 sha512_256 sigmoid sign
    simplejsonextractbool simplejsonextractfloat simplejsonextractint simplejsonextractraw simplejsonextractstring
    simplejsonextractuint simplejsonhas sin sinh siphash128 siphash128keyed siphash128reference
    siphash128referencekeyed siphash64 siphash64keyed snowflakeidtodatetime snowflakeidtodatetime64 soundex space
    sparsegrams sparsegramshashes sparsegramshashesutf8 sparsegramsutf8 splitbyalpha splitbychar splitbynonalpha
    splitbyregexp splitbystring splitbywhitespace sqid sqiddecode sqidencode sqr sqrt st_asmvtgeom st_linefromwkb
    st_mlinefromwkb st_mpointfromwkb st_mpolyfromwkb st_pointfromwkb st_polyfromwkb startswith
    startswithcaseinsensitive startswithcaseinsensitiveutf8 startswithutf8 str_to_date str_to_map stringbytesentropy
    stringbytesuniq stringjaccardindex stringjaccardindexutf8 stringtoh3 subbitmap subdate substr substring
    substring_index substringindex substringindexutf8 substringutf8 subtractdays subtracthours subtractinterval
    subtractmicroseconds subtractmilliseconds subtractminutes subtractmonths subtractnanoseconds subtractquarters
    subtractseconds subtracttupleofintervals subtractweeks subtractyears svg tan tanh tgamma throwif time_bucket
    timediff timeseriesfromgrid timeseriesrange timeslot timeslots timestamp timestamp_add timestamp_diff
    timestamp_sub timestampadd timestampdiff timestampsub timezone timezoneof timezoneoffset to_base64 to_days
    to_unixtime to_utc_timestamp tobfloat16 tobfloat16ornull tobfloat16orzero tobool tocolumntypename todate todate32
    todate32ordefault todate32ornull todate32orzero todateordefault todateornull todateorzero todatetime todatetime32
    todatetime64 todatetime64ordefault todatetime64ornull todatetime64orzero todatetimeordefault todatetimeornull
    todatetimeorzero today todayofmonth todayofweek todayofyear todaysinmonth todayssinceyearzero todecimal128
    todecimal128ordefault todecimal128ornull todecimal128orzero todecimal256 todecimal256ordefault todecimal256ornull
    todecimal256orzero todecimal32 todecimal32ordefault todecimal32ornull todecimal32orzero todecimal64
    todecimal64ordefault todecimal64ornull todecimal64orzero todecimalstring tofixedstring tofloat32
    tofloat32ordefault tofloat32ornull tofloat32orzero tofloat64 tofloat64ordefault tofloat64ornull tofloat64orzero
    tohour toint128 toint128ordefault toint128ornull toint128orzero toint16 toint16ordefault toint16ornull
    toint16orzero toint256 toint256ordefault toint256ornull toint256orzero toint32 toint32ordefault toint32ornull
    toint32orzero toint64 toint64ordefault toint64ornull toint64orzero toint8 toint8ordefault toint8ornull
    toint8orzero tointerval tointervalday tointervalhour tointervalmicrosecond tointervalmillisecond tointervalminute
    tointervalmonth tointervalnanosecond tointervalquarter tointervalsecond tointervalweek tointervalyear toipv4
    toipv4ordefault toipv4ornull toipv4orzero toipv6 toipv6ordefault toipv6ornull toipv6orzero toisoweek toisoyear
    tojsonstring tokens tokensforlikepattern tolastdayofmonth tolastdayofweek tolowcardinality tomicrosecond
    tomillisecond tominute tomodifiedjulianday tomodifiedjuliandayornull tomonday tomonth tomonthnumsinceepoch
    tonanosecond tonullable topleveldomain topleveldomainrfc toquarter torelativedaynum torelativehournum
    torelativeminutenum torelativemonthnum torelativequarternum torelativesecondnum torelativeweeknum
    torelativeyearnum tosecond tostartofday tostartoffifteenminutes tostartoffiveminute tostartoffiveminutes
    tostartofhour tostartofinterval tostartofisoyear tostartofmicrosecond tostartofmillisecond tostartofminute
    tostartofmonth tostartofnanosecond tostartofquarter tostartofsecond tostartoftenminutes tostartofweek
    tostartofyear tostring tostringcuttozero totime totime64 totime64ornull totime64orzero totimeornull totimeorzero
    totimewithfixeddate totimezone totypename touint128 touint128ordefault touint128ornull touint128orzero touint16
    touint16ordefault touint16ornull touint16orzero touint256 touint256ordefault touint256ornull touint256orzero
    touint32 touint32ordefault touint32ornull touint32orzero touint64 touint64ordefault touint64ornull touint64orzero
    touint8 touint8ordefault touint8ornull touint8orzero tounixtimestamp tounixtimestamp64micro tounixtimestamp64milli
    tounixtimestamp64nano tounixtimestamp64second toutctimestamp touuid touuidordefault touuidornull touuidorzero
    tovalidutf8 toweek toyear toyearnumsinceepoch toyearweek toyyyymm toyyyymmdd toyyyymmddhhmmss transform translate
    translateutf8 trim trimboth trimleft trimright trunc truncate trybase32decode trybase58decode trybase64decode
    trybase64urldecode tumble tumbleend tumblestart tuple tupleconcat tupledivide tupledividebynumber tupleelement
    tuplehammingdistance tupleintdiv tupleintdivbynumber tupleintdivorzero tupleintdivorzerobynumber tupleminus
    tuplemodulo tuplemodulobynumber tuplemultiply tuplemultiplybynumber tuplenames tuplenegate tupleplus
    tuplepositivemodulobynumber tupletonamevaluepairs ucase unbin unhex unnest untuple upper upperutf8 urlhash
    urlhierarchy urlpathhierarchy user utc_timestamp utctimestamp utmtogeo uuidnumtostring uuidstringtonum uuidtonum
    uuidv7todatetime variantelement varianttype vectordifference vectorsum version visiblewidth visitparamextractbool
    visitparamextractfloat visitparamextractint visitparamextractraw visitparamextractstring visitparamextractuint
    visitparamhas week width_bucket widthbucket wkb wkt wordshingleminhash wordshingleminhasharg
    wordshingleminhashargcaseinsensitive wordshingleminhashargcaseinsensitiveutf8 wordshingleminhashargutf8
    wordshingleminhashcaseinsensitive wordshingleminhashcaseinsensitiveutf8 wordshingleminhashutf8 wordshinglesimhash
    wordshinglesimhashcaseinsensitive wordshinglesimhashcaseinsensitiveutf8 wordshinglesimhashutf8 wyhash64 xor xxh3
    xxh3_128 xxhash32 xxhash64 xxhash64spark yandexconsistenthash year yearweek yesterday yyyymmddhhmmsstodatetime
    yyyymmddhhmmsstodatetime64 yyyymmddtodate yyyymmddtodate32
    """.split()
)
"""Those that compute with what they are given and touch nothing else."""
REFUSED = frozenset(
    """
    __actionname __applyfilter __bitboolmaskand __bitboolmaskor __bitswaplasttwo __bitwrapperfunc __getscalar
    __groupingforcube __groupingforgroupingsets __groupingforrollup __groupingordinary __patchpartitionid
    __scalarsubqueryresult __toyearcalendaronly _cast addresstoline addresstolinewithinlines addresstosymbol
    aes_decrypt_mysql aes_encrypt_mysql aggthrow aiclassify aiembed aiextract aifilter aigenerate airedact
    aisimilarity aitranslate assigncentroid authenticateduser authuser buildid chdb connection_id connectionid
    current_query_id current_schemas currenthandler currentprofiles currentqueryid currentrequesturl currentroles
    currentschemas decrypt defaultprofiles defaultroles demangle dictget dictgetall dictgetchildren dictgetdate
    dictgetdateordefault dictgetdatetime dictgetdatetimeordefault dictgetdescendants dictgetfloat32
    dictgetfloat32ordefault dictgetfloat64 dictgetfloat64ordefault dictgethierarchy dictgetint16 dictgetint16ordefault
    dictgetint32 dictgetint32ordefault dictgetint64 dictgetint64ordefault dictgetint8 dictgetint8ordefault dictgetipv4
    dictgetipv4ordefault dictgetipv6 dictgetipv6ordefault dictgetkeys dictgetordefault dictgetornull dictgetroot
    dictgetstring dictgetstringordefault dictgetuint16 dictgetuint16ordefault dictgetuint32 dictgetuint32ordefault
    dictgetuint64 dictgetuint64ordefault dictgetuint8 dictgetuint8ordefault dictgetuuid dictgetuuidordefault dicthas
    dictisin enabledprofiles enabledroles encrypt estimatecompressionratio evalmlmethod file filesystemavailable
    filesystemcapacity filesystemunreserved flamegraph formatquery formatqueryfromjson formatqueryornull
    formatquerysingleline formatquerysinglelineornull formatrow formatrownonewline fqdn fullhostname fuzzquery
    generaterandomstructure generateserialid getclienthttpheader getmacro getmaxtablenamelengthfordatabase
    getmergetreesetting getoskernelversion getserverport getserversetting getsetting getsettingordefault
    gettypeserializationstreams globalinignoreset globalnotinignoreset globalnotnullinignoreset globalnullinignoreset
    globalvariable groupformat hascolumnintable hasthreadfuzzer highlightquery icebergbucket icebergtruncate
    inignoreset initial_query_id initial_query_start_time initialqueryid initialquerystarttime
    ismergetreepartcoveredby joinget joingetornull kqlparametercast logtrace mergetreepartinfo naivebayesclassifier
    naivebayesclassifierwithallprobs naivebayesclassifierwithprob naivebayesngrams nested normalizedqueryhash
    normalizedqueryhashkeepnames normalizequery normalizequerykeepnames notinignoreset notnullinignoreset
    nullinignoreset obfuscatequery obfuscatequerywithseed parsequerytojson partitionid pg_get_userbyid
    pg_table_is_visible pggetuserbyid pgtableisvisible regionhierarchy regionin regiontoarea regiontocity
    regiontocontinent regiontocountry regiontodistrict regiontoname regiontopopulation regiontotopcontinent serveruuid
    shardcount shardnum showcertificate sleep sleepeachrow structuretocapnprotoschema structuretoprotobufschema
    tcpport tid timeseriescopytag timeseriescopytags timeseriesextracttag timeseriesgrouptosamplingkey
    timeseriesgrouptotags timeseriesidtogroup timeseriesidtotags timeseriesidtotagsgroup timeseriesjointags
    timeseriesmetrictypetosuffixes timeseriesprometheusvaluetostring timeseriesremovealltagsexcept timeseriesremovetag
    timeseriesremovetags timeseriesreplacetag timeseriesstoretags timeseriestagsgrouptotags timeseriestagstogroup
    timeseriestagstomap timeseriesthrowduplicateseriesif tokenizequery transactionid transactionlatestsnapshot
    transactionoldestsnapshot trydecrypt uptime validatenestedarraysizes zookeepersessionuptime
    """.split()
)
"""Those that read files, tables, dictionaries, models, settings, other machines or the process, wait, or run text."""
HIGHER_ORDER = frozenset(
    """
    arrayall arrayavg arraybottomk arraycompact arraycount arraycumsum arraycumsumnonnegative arraydifference
    arrayexists arrayfill arrayfilter arrayfirst arrayfirstindex arrayfirstornull arrayfold arraylast arraylastindex
    arraylastornull arraymap arraymax arraymin arraypartialreversesort arraypartialsort arrayproduct arrayreversefill
    arrayreversesort arrayreversesplit arraysort arraysplit arraysum arraytopk mapall mapapply mapexists mapfilter
    mappartialreversesort mappartialsort mapreversesort mapsort
    """.split()
)
"""Those that take a function: a lambda, or the bare name of another one."""
COMBINATORS = (
    "simplestate",
    "ordefault",
    "distinct",
    "resample",
    "foreach",
    "argmax",
    "argmin",
    "ornull",
    "array",
    "merge",
    "state",
    "tuple",
    "null",
    "map",
    "if",
)
